#!/bin/busybox sh
# The first program of the guest. It makes a root of the directories that the host shares as the tags $1, where the
# first that has a file decides, and continues there with the program $2. The guest can read them and only seems to
# write. What is to be kept goes into the directory that the host shares as `share`.
set -e
export PATH=/bin
fail() {
	echo "the guest cannot start: line $1"
	busybox poweroff -f
}
trap 'fail $LINENO' EXIT

busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
for module in virtio_pci 9pnet_virtio 9p overlay; do
	busybox modprobe "$module"
done
cd /layers
IFS=:
for tag in $1; do
	busybox mkdir "$tag"
	busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 "$tag" "$tag"
done
busybox mount -t tmpfs tmpfs /scratch
busybox mkdir /scratch/upper /scratch/work
busybox mount -t overlay -o "lowerdir=$1,upperdir=/scratch/upper,workdir=/scratch/work" overlay /root

busybox mount --move /dev /root/dev
busybox mount --move /proc /root/proc
busybox mount -t sysfs sys /root/sys
busybox mount -t tmpfs tmpfs /root/run
busybox mkdir /root/run/share
busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 share /root/run/share
trap - EXIT
shift
exec busybox switch_root /root /bin/sh "$@"
