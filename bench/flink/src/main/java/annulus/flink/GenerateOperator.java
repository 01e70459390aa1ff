package annulus.flink;

import org.apache.flink.api.common.accumulators.LongMaximum;
import org.apache.flink.api.common.accumulators.LongMinimum;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Takes the numbers of blocks and emits their tuples, all in the same array: for jobs with object reuse.
 *
 * <p>An operator rather than a function, because a function's output inherits the source's timestamp, and eight bytes more a
 * tuple would then cross the shuffle.
 */
@SuppressWarnings("serial")
final class GenerateOperator extends AbstractStreamOperator<byte[]> implements OneInputStreamOperator<Long, byte[]> {
    private static final long BLOCK_TUPLES = 1024;

    private final Options options;
    private transient StreamRecord<byte[]> tuple;

    GenerateOperator(Options options) {
        this.options = options;
        chainingStrategy = ChainingStrategy.ALWAYS;
    }

    static long lastBlock(Options options) {
        return (options.tuples() - 1) / BLOCK_TUPLES;
    }

    @Override
    public void open() throws Exception {
        super.open();
        tuple = new StreamRecord<>(new byte[options.tupleBytes()]);
        LongMinimum started = new LongMinimum();
        started.add(System.nanoTime());
        getRuntimeContext().addAccumulator(Jobs.STARTED, started);
    }

    @Override
    public void processElement(StreamRecord<Long> block) {
        long first = block.getValue() * BLOCK_TUPLES;
        long end = Math.min(first + BLOCK_TUPLES, options.tuples());
        byte[] bytes = tuple.getValue();
        for (long number = first; number < end; number++) {
            Generator.write(Options.SEED, number, bytes);
            output.collect(tuple);
        }
    }

    @Override
    public void finish() throws Exception {
        LongMaximum ended = new LongMaximum();
        ended.add(System.nanoTime());
        getRuntimeContext().addAccumulator(Jobs.ENDED, ended);
        super.finish();
    }
}
