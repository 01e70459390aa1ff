#!/usr/bin/env bash
# Runs the roundabout, and the figures of the cyclo-join paper that have links over libfabric, over real RDMA verbs without such a network:
# soft-RoCE in a small virtual machine, some minutes. It shows that it works and that every byte arrives, not how fast. The page with the
# column 'ofi-verbs' is left in the folder soft-roce/page of the target folder. Optional: needs x86-64, 4 GiB of memory, and these packages
# of Debian 12:
#   apt-get install qemu-system-x86 busybox-static cpio iproute2 rdma-core libfabric-dev kmod
# The kernel is downloaded (100 MB) and unpacked, not installed: the newest linux-image of the release, for its rdma_rxe module.
set -euo pipefail
source "$(dirname "$0")/env.sh"

lacks=()
for program in qemu-system-x86_64 cpio modprobe rdma ip apt-get dpkg-deb; do
    command -v "$program" >/dev/null || [ -x "/usr/sbin/$program" ] || lacks+=("$program")
done
[ -x /bin/busybox ] || [ -x /usr/bin/busybox ] || lacks+=(busybox-static)
[ -e /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so ] || lacks+=(rdma-core)
if [ "${#lacks[@]}" -gt 0 ]; then
    echo "not there: ${lacks[*]}; see the packages at the head of $0" >&2
    exit 2
fi
export PATH="$PATH:/usr/sbin"

cargo build --release --locked -p annulus-lab --features ofi
program="$CARGO_TARGET_DIR/release/annulus-lab"

work="$CARGO_TARGET_DIR/soft-roce"
mkdir -p "$work"
cd "$work"
image=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)
[ -n "$image" ] || { echo "apt knows no kernel: run apt-get update" >&2; exit 2; }
if [ ! -e "$image.unpacked" ]; then
    apt-get download "$image"
    rm -rf kernel
    dpkg-deb -x "${image}"_*.deb kernel
    rm "${image}"_*.deb
    touch "$image.unpacked"
fi
version=${image#linux-image-}
depmod -b kernel "$version"

# What the machine has: busybox, the tools, the program, their libraries, and the modules in the order in which they load.
rm -rf root
mkdir -p root/{bin,dev,etc/libibverbs.d,mods,proc,sys,tmp,usr/lib}
ln -s bin root/sbin
cp "$(command -v busybox)" root/bin/
for applet in sh mount insmod poweroff sleep echo cat mkdir stty tar; do ln -sf busybox "root/bin/$applet"; done
programs=("$(command -v ip)" "$(command -v rdma)" "$program")
cp -L "${programs[@]}" root/bin/
driver=/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so
ldd "${programs[@]}" "$driver" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^\s*\(\/lib64[^ ]*\).*/\1/p' | sort -u |
    while read -r library; do
        mkdir -p "root$(dirname "$library")"
        cp -L "$library" "root$library"
    done
mkdir -p "root$(dirname "$driver")"
cp -L "$driver" "root$driver"
cp /etc/libibverbs.d/rxe.driver root/etc/libibverbs.d/
number=10
for module in crc32_generic rdma_rxe rdma_ucm ib_uverbs dummy; do
    modprobe -d "$PWD/kernel" -S "$version" --show-depends "$module" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
done | awk '!seen[$0]++' | while read -r module; do
    cp "$module" "root/mods/$((number++))-$(basename "$module")"
done

cat >root/init <<'INIT'
#!/bin/sh
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
mount -t tmpfs tmp /dev/shm
mount -t tmpfs tmp /tmp
for module in /mods/*; do insmod "$module"; done
ip link set lo up
ip link add dummy0 type dummy
ip addr add 10.99.0.1/24 dev dummy0
ip link set dummy0 up
rdma link add rxe0 type rxe netdev dummy0
sleep 1
ulimit -l unlimited
# The number of neighbours that the provider makes queues for. Its default, 256, is more than soft-RoCE has room for.
export FI_UNIVERSE_SIZE=16
annulus-lab bench roundabout --ways plain,ofi,ofi-sealed --fabric 'verbs;ofi_rxm@10.99.0.1' \
    --elements 64K,1M --bytes 32M --rounds 1 && echo "THE RING TURNED"
# The second serial line is a file outside.
annulus-lab reproduce cyclo-join --figures 3,5,12 --quick --out /tmp/page && echo "THE FIGURES ARE DRAWN" &&
    stty raw -F /dev/ttyS1 && tar -c -C /tmp/page . >/dev/ttyS1
poweroff -f
INIT
chmod +x root/init
(cd root && find . | cpio -o -H newc --quiet | gzip -1) >initrd.gz

timeout 1800 qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m 4096 -display none -monitor none -no-reboot \
    -serial stdio -serial file:page.tar \
    -kernel kernel/boot/vmlinuz-"$version" -initrd initrd.gz -append "console=ttyS0 quiet panic=-1" | tee console.log
grep -q "THE RING TURNED" console.log
grep -q "THE FIGURES ARE DRAWN" console.log
rm -rf page
mkdir page
tar -x -C page -f page.tar
grep -q '"way":"ofi-verbs"' page/cyclo-join.jsonl
grep -q '"link":"ofi-verbs"' page/cyclo-join.jsonl
echo "the page: $work/page/cyclo-join.html"
