#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The first process of the namespaces that a fresh system is: mounts the root file system $1, moves into it and
# executes the command in $2/share/command as root's login would. Writes go to $2 only. pivot_root and not chroot, as
# tests make mount namespaces and enter those of others, which would lead out of a chroot. Further arguments are
# directories on the machine's disk: the root is an overlay, as in a container, on which no other overlay can be made.
set -eu
system=$1 scratch=$2 root=$2/root
shift 2

mkdir "$scratch/upper" "$scratch/work" "$root"
mount -t overlay -o "lowerdir=$system,upperdir=$scratch/upper,workdir=$scratch/work" overlay "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
for directory in dev/shm run tmp; do
	mount -t tmpfs tmpfs "$root/$directory"
done
for directory; do
	mkdir -p "$scratch/disk$directory" "$root$directory"
	mount --bind "$scratch/disk$directory" "$root$directory"
	chmod --reference="$system/tmp" "$root$directory"
done
mkdir "$root/run/lock" "$root/mnt/share" "$root/mnt/machine"
mount --bind "$scratch/share" "$root/mnt/share"

# How this machine reaches names, Debian's mirror and npm's registry.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp "$scratch/share/apt.conf" "$root/etc/apt/apt.conf.d/90machine"
cp "$scratch/share/npmrc" "$root/root/.npmrc"
hostname fresh

cd "$root"
pivot_root . mnt/machine
# The shell waits, and thereby reaps what is left to the first process.
exec env -C /root HOME=/root sh -c 'umount -l /mnt/machine; sh /mnt/share/command; exit $?'
