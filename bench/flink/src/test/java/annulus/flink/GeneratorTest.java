package annulus.flink;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HexFormat;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;

class GeneratorTest {
    @Test
    void splitmix64IsVignas() {
        assertEquals(0xE220A8397B1DCDAFL, Generator.splitmix64(0));
        assertEquals(0x6E789E6AA1B965F4L, Generator.splitmix64(0x9E3779B97F4A7C15L));
    }

    @Test
    void theFirstKeysOfSeed42() {
        int[] keys = LongStream.range(0, 5).mapToInt(number -> Generator.key(42, number)).toArray();
        assertArrayEquals(new int[] {0xBDD73226, 0xBA69EC90, 0xFB452912, 0xF7E9F3F8, 0xBAEE56F3}, keys);
    }

    @Test
    void aTupleIsItsKeyAndWordsThatWrap() {
        byte[] tuple = new byte[16];
        Generator.write(42, 0x1_FFFF_FFFFL, tuple);
        assertEquals(Generator.key(42, 0x1_FFFF_FFFFL), Generator.keyOf(tuple));
        assertEquals("ffffffff" + "b879379e" + "71f36e3c", HexFormat.of().formatHex(tuple, 4, 16));
    }

    @Test
    void partitionsTakeKeysAsUnsigned() {
        assertEquals(31, Generator.partition(-1, 32));
        assertEquals(1023, Generator.partition(-1, 1024));
        assertEquals((int) (0xFFFFFFFFL % 10), Generator.partition(-1, 10));
        assertEquals(0, Generator.partition(-1, 1));
    }
}
