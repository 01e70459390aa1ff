package annulus.flink;

import java.util.stream.IntStream;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * The two jobs: generation alone, and generation, {@code keyBy} and counting. Each runs in a MiniCluster of its own, one
 * worker with a slot a thread; the start of the cluster is not in the times, which run from the first task's opening to the
 * last task's end.
 */
final class Jobs {
    static final String STARTED = "started";
    static final String ENDED = "ended";

    private Jobs() {}

    /** Seconds to make the tuples and drop them in the same task. */
    static double generate(Options options) throws Exception {
        StreamExecutionEnvironment environment = environment(options);
        tuples(environment, options).sinkTo(new DiscardingSink<>());
        return seconds(environment.execute());
    }

    /** Seconds to make, shuffle and count the tuples, and how many each partition had. */
    static Counted shuffle(Options options) throws Exception {
        StreamExecutionEnvironment environment = environment(options);
        tuples(environment, options)
                .keyBy(partitionOf(options.partitions()), Types.INT)
                .process(new CountFunction(options.partitions()))
                .sinkTo(new DiscardingSink<>());
        JobExecutionResult result = environment.execute();
        return new Counted(seconds(result), result.getAccumulatorResult(CountFunction.COUNTS));
    }

    record Counted(double seconds, long[] counts) {}

    private static StreamExecutionEnvironment environment(Options options) {
        // Else the network buffers of clusters that are gone would stay, and count in the process's peak memory.
        System.gc();
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(options.parallelism());
        environment.getConfig().enableObjectReuse();
        return environment;
    }

    private static DataStream<byte[]> tuples(StreamExecutionEnvironment environment, Options options) {
        NumberSequenceSource blocks = new NumberSequenceSource(0, GenerateOperator.lastBlock(options));
        return environment
                .fromSource(blocks, WatermarkStrategy.noWatermarks(), "blocks")
                .transform("generate", new TupleType(options.tupleBytes()), new GenerateOperator(options));
    }

    private static KeySelector<byte[], Integer> partitionOf(int partitions) {
        Integer[] boxed = IntStream.range(0, partitions).boxed().toArray(Integer[]::new);
        return tuple -> boxed[Generator.partition(Generator.keyOf(tuple), partitions)];
    }

    private static double seconds(JobExecutionResult result) {
        long started = result.getAccumulatorResult(STARTED);
        long ended = result.getAccumulatorResult(ENDED);
        return (ended - started) / 1e9;
    }
}
