package annulus.flink;

import java.io.IOException;
import org.apache.flink.api.common.ExecutionConfig;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.TypeSerializerSingleton;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** Tuples of one fixed length: their bytes and nothing else go over the wire. */
@SuppressWarnings("serial")
final class TupleType extends TypeInformation<byte[]> {
    private final int tupleBytes;

    TupleType(int tupleBytes) {
        this.tupleBytes = tupleBytes;
    }

    @Override
    public TypeSerializer<byte[]> createSerializer(SerializerConfig config) {
        return new Serializer(tupleBytes);
    }

    @Override
    @Deprecated
    public TypeSerializer<byte[]> createSerializer(ExecutionConfig config) {
        return new Serializer(tupleBytes);
    }

    @Override
    public Class<byte[]> getTypeClass() {
        return byte[].class;
    }

    @Override
    public boolean isBasicType() {
        return false;
    }

    @Override
    public boolean isTupleType() {
        return false;
    }

    @Override
    public boolean isKeyType() {
        return false;
    }

    @Override
    public int getArity() {
        return 1;
    }

    @Override
    public int getTotalFields() {
        return 1;
    }

    @Override
    public String toString() {
        return "Tuple(" + tupleBytes + " bytes)";
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof TupleType type && type.tupleBytes == tupleBytes;
    }

    @Override
    public int hashCode() {
        return tupleBytes;
    }

    @Override
    public boolean canEqual(Object other) {
        return other instanceof TupleType;
    }

    private static final class Serializer extends TypeSerializerSingleton<byte[]> {
        private final int tupleBytes;

        Serializer(int tupleBytes) {
            this.tupleBytes = tupleBytes;
        }

        @Override
        public boolean isImmutableType() {
            return false;
        }

        @Override
        public byte[] createInstance() {
            return new byte[tupleBytes];
        }

        @Override
        public byte[] copy(byte[] from) {
            return from.clone();
        }

        @Override
        public byte[] copy(byte[] from, byte[] reuse) {
            System.arraycopy(from, 0, reuse, 0, tupleBytes);
            return reuse;
        }

        @Override
        public int getLength() {
            return tupleBytes;
        }

        @Override
        public void serialize(byte[] tuple, DataOutputView target) throws IOException {
            target.write(tuple, 0, tupleBytes);
        }

        @Override
        public byte[] deserialize(DataInputView source) throws IOException {
            return deserialize(createInstance(), source);
        }

        @Override
        public byte[] deserialize(byte[] reuse, DataInputView source) throws IOException {
            source.readFully(reuse, 0, tupleBytes);
            return reuse;
        }

        @Override
        public void copy(DataInputView source, DataOutputView target) throws IOException {
            target.write(source, tupleBytes);
        }

        @Override
        public TypeSerializerSnapshot<byte[]> snapshotConfiguration() {
            throw new UnsupportedOperationException("tuples are never part of a savepoint");
        }
    }
}
