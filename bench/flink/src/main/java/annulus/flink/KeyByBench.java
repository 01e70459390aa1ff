package annulus.flink;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.apache.flink.runtime.util.EnvironmentInformation;

/** Times Flink's {@code keyBy}: a line of JSON on stdout for each round after the first, which warms up. */
public final class KeyByBench {
    private KeyByBench() {}

    /** Exits with 0, with 2 if the options are wrong, or with 1 if a job fails or its counts are not the ones expected. */
    public static void main(String[] args) {
        int status = 0;
        try {
            run(Options.parse(args));
        } catch (IllegalArgumentException wrong) {
            System.err.println(wrong.getMessage() + "\n" + Options.USAGE);
            status = 2;
        } catch (Exception failed) {
            failed.printStackTrace();
            status = 1;
        }
        System.exit(status);
    }

    private static void run(Options options) throws Exception {
        long[] expected = expectedCounts(options);
        for (int round = 0; round <= options.rounds(); round++) {
            double generateSeconds = Jobs.generate(options);
            Jobs.Counted shuffled = Jobs.shuffle(options);
            check(shuffled.counts(), expected, options.tuples());
            if (round > 0) {
                System.out.println(json(options, generateSeconds, shuffled.seconds()));
            }
        }
    }

    private static long[] expectedCounts(Options options) {
        long[] counts = new long[options.partitions()];
        for (long number = 0; number < options.tuples(); number++) {
            counts[Generator.partition(Generator.key(Options.SEED, number), counts.length)]++;
        }
        return counts;
    }

    private static void check(long[] counts, long[] expected, long tuples) {
        long sum = 0;
        for (int partition = 0; partition < expected.length; partition++) {
            if (counts[partition] != expected[partition]) {
                throw new IllegalStateException("partition " + partition + " has " + counts[partition] + " tuples, not "
                        + expected[partition]);
            }
            sum += counts[partition];
        }
        if (sum != tuples) {
            throw new IllegalStateException("the partitions have " + sum + " tuples together, not " + tuples);
        }
    }

    private static String json(Options options, double generateSeconds, double totalSeconds) throws IOException {
        double shuffleSeconds = totalSeconds - generateSeconds;
        if (shuffleSeconds <= 0) {
            throw new IllegalStateException("the shuffle's time is lost in the noise: ask for more --tuples");
        }
        return String.format(
                Locale.ROOT,
                "{\"variant\":\"flink keyBy\",\"tuple_bytes\":%d,\"partitions\":%d,\"threads\":%d,\"tuples\":%d,"
                        + "\"mtuples_per_s\":%.3f,\"generate_s\":%.6f,\"shuffle_s\":%.6f,\"total_s\":%.6f,\"peak_mb\":%.1f,"
                        + "\"flink\":\"%s\",\"java\":\"%s\"}",
                options.tupleBytes(), options.partitions(), options.parallelism(), options.tuples(),
                options.tuples() / shuffleSeconds / 1e6, generateSeconds, shuffleSeconds, totalSeconds, peakMegabytes(),
                EnvironmentInformation.getVersion(), Runtime.version());
    }

    /** The most memory that this process has held so far, in MiB: heap, network buffers and the JVM itself. */
    private static double peakMegabytes() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmHWM:")) {
                return Long.parseLong(line.replaceAll("\\D", "")) / 1024.0;
            }
        }
        throw new IOException("/proc/self/status has no VmHWM");
    }
}
