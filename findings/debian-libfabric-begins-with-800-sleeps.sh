#!/usr/bin/env bash
# Guess:    a program that is linked with libfabric and does nothing starts as fast as any other.
# Happens:  it sleeps about 800 times for 125 microseconds before main begins, 0.2 s in all: libfabric needs the libraries of
#           every provider, and the one for InfiniPath adapters, which the machine need not have, measures its clock when it
#           is loaded. `--version` takes as long.
# Versions: libfabric1 1.17.0-3 and libpsm-infinipath1 3.3+20.604758e7-6.2 of Debian 12.
# Where:    tests that start programs took twice as long with the links over libfabric as without.
set -euo pipefail
command -v apt-get >/dev/null && command -v gcc >/dev/null || { echo "needs apt-get and gcc" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
packages=(libfabric1=1.17.0-3 libpsm-infinipath1=3.3+20.604758e7-6.2 libpsm2-2 librdmacm1
    libibverbs1 ibverbs-providers libnl-3-200 libnl-route-3-200 libnuma1 libuuid1 libatomic1)
apt-get download -qq "${packages[@]}" 2>log || { cat log >&2; exit 2; }
for package in *.deb; do dpkg -x "$package" root; done
found=$(find "$folder/root" -name '*.so.*' -printf '%h\n' | sort -u | paste -sd:)
library=$(find root -name 'libfabric.so.1*' | head -1)

# Counts what is slept before main.
cat >count.c <<'C'
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static long calls, microseconds;
int usleep(useconds_t time) {
    struct timespec left = {0, time * 1000L};
    calls++;
    microseconds += time;
    return nanosleep(&left, NULL);
}
__attribute__((destructor)) static void tell(void) { printf("%ld sleeps, %ld us\n", calls, microseconds); }
C
gcc -shared -fPIC -o count.so count.c
echo 'int main(void) { return 0; }' >nothing.c
gcc -o plain nothing.c
gcc -o linked nothing.c -Wl,--no-as-needed "$library" -Wl,--allow-shlib-undefined
for program in plain linked; do
    said=$(LD_LIBRARY_PATH=$found LD_PRELOAD=$folder/count.so ./$program)
    echo "$program: $said"
done | tee said
grep -q '^plain: 0 sleeps' said && grep -qE '^linked: [0-9]{3,} sleeps' said || { echo "it has changed"; exit 1; }
