package annulus.flink;

import java.util.Arrays;
import org.apache.flink.api.common.accumulators.Accumulator;
import org.apache.flink.api.common.accumulators.LongMaximum;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/** Counts the tuples of each partition into the job's accumulator {@link #COUNTS}. The stream's key is the partition. */
@SuppressWarnings("serial")
final class CountFunction extends KeyedProcessFunction<Integer, byte[], Void> {
    static final String COUNTS = "counts";

    private final int partitions;
    private transient Counts counts;

    CountFunction(int partitions) {
        this.partitions = partitions;
    }

    @Override
    public void open(OpenContext context) {
        counts = new Counts(new long[partitions]);
        getRuntimeContext().addAccumulator(COUNTS, counts);
    }

    @Override
    public void processElement(byte[] tuple, Context context, Collector<Void> out) {
        counts.add(context.getCurrentKey());
    }

    @Override
    public void close() {
        LongMaximum ended = new LongMaximum();
        ended.add(System.nanoTime());
        getRuntimeContext().addAccumulator(Jobs.ENDED, ended);
    }

    private record Counts(long[] of) implements Accumulator<Integer, long[]> {
        @Override
        public void add(Integer partition) {
            of[partition]++;
        }

        @Override
        public long[] getLocalValue() {
            return of;
        }

        @Override
        public void resetLocal() {
            Arrays.fill(of, 0);
        }

        @Override
        public void merge(Accumulator<Integer, long[]> other) {
            long[] theirs = other.getLocalValue();
            for (int partition = 0; partition < of.length; partition++) {
                of[partition] += theirs[partition];
            }
        }

        @Override
        public Counts clone() {
            return new Counts(of.clone());
        }
    }
}
