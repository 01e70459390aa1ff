package annulus.flink;

import java.io.Serializable;

/** What the command line asks for, checked. */
record Options(long tuples, int tupleBytes, int partitions, int parallelism, int rounds) implements Serializable {
    static final long SEED = 42;
    static final String USAGE = "options: --tuples N --tuple-bytes B --partitions P --parallelism T --rounds R";

    /** @throws IllegalArgumentException if an option is unknown or has no value, or one out of range. */
    static Options parse(String[] args) {
        long tuples = 20_000_000;
        int tupleBytes = 16;
        int partitions = 1024;
        int parallelism = Runtime.getRuntime().availableProcessors();
        int rounds = 3;
        for (int at = 0; at < args.length; at += 2) {
            String name = args[at];
            String value = at + 1 < args.length ? args[at + 1] : "";
            switch (name) {
                case "--tuples" -> tuples = number(name, value, 1, 1L << 40);
                case "--tuple-bytes" -> tupleBytes = (int) number(name, value, Generator.KEY_BYTES, 1 << 20);
                case "--partitions" -> partitions = (int) number(name, value, 1, 1 << 20);
                case "--parallelism" -> parallelism = (int) number(name, value, 1, 1024);
                case "--rounds" -> rounds = (int) number(name, value, 1, 1000);
                default -> throw new IllegalArgumentException("unknown option " + name);
            }
        }
        if (tupleBytes % Integer.BYTES != 0) {
            throw new IllegalArgumentException("--tuple-bytes takes a multiple of 4, not " + tupleBytes);
        }
        return new Options(tuples, tupleBytes, partitions, parallelism, rounds);
    }

    private static long number(String name, String value, long min, long max) {
        try {
            long number = Long.parseLong(value);
            if (number >= min && number <= max) {
                return number;
            }
        } catch (NumberFormatException notANumber) {
            // Told below, like a number out of range.
        }
        throw new IllegalArgumentException(name + " takes a number from " + min + " to " + max + ", not \"" + value + "\"");
    }
}
