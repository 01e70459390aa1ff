package annulus.flink;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;

/**
 * The tuples: a pure function of the seed and the tuple's number, so that any program can make the same ones.
 *
 * <p>A tuple is a key of 4 bytes and then its payload, all of it little-endian words of 32 bits. Its key is the upper half
 * of {@code splitmix64(seed + number)}; word {@code w} of its payload is {@code number + w * 0x9E3779B9}, wrapping.
 */
final class Generator {
    static final int KEY_BYTES = 4;
    private static final VarHandle WORDS =
            MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

    private Generator() {}

    /** The first output of Vigna's SplitMix64 (https://prng.di.unimi.it/splitmix64.c) from the state given. */
    static long splitmix64(long state) {
        long z = state + 0x9E3779B97F4A7C15L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    static int key(long seed, long number) {
        return (int) (splitmix64(seed + number) >>> 32);
    }

    static int keyOf(byte[] tuple) {
        return (int) WORDS.get(tuple, 0);
    }

    /** Overwrites {@code tuple}, whose length is a multiple of 4, with the tuple of that number. */
    static void write(long seed, long number, byte[] tuple) {
        WORDS.set(tuple, 0, key(seed, number));
        int word = (int) number;
        for (int at = KEY_BYTES; at < tuple.length; at += Integer.BYTES) {
            WORDS.set(tuple, at, word);
            word += 0x9E3779B9;
        }
    }

    /** The partition of a key: its low bits if {@code partitions} is a power of two, else the unsigned remainder. */
    static int partition(int key, int partitions) {
        boolean powerOfTwo = (partitions & (partitions - 1)) == 0;
        return powerOfTwo ? key & (partitions - 1) : Integer.remainderUnsigned(key, partitions);
    }
}
