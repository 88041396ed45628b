# SPDX-License-Identifier: Apache-2.0
# What the first process of the node's host does in its new namespaces. $1: the directory that keeps what a
# reboot leaves, boot-id and machine-id among it. Everything else is gone with the namespaces.

# /sys shows the network namespace that it was mounted in.
mount --rbind /sys/fs/cgroup /mnt
mount -t sysfs sysfs /sys
mount --rbind /mnt /sys/fs/cgroup
umount -l /mnt

mount --bind "$1/boot-id" /proc/sys/kernel/random/boot_id
mount -t tmpfs -o mode=755 tmpfs /run

# Room for mount points and files that the machine itself need not have, and must not get.
for place in /etc /home /opt /var; do
	layers=/run/.layers$place
	mkdir -p "$layers/upper" "$layers/work"
	mount -t overlay -o "lowerdir=$place,upperdir=$layers/upper,workdir=$layers/work" overlay "$place"
done
: >/etc/resolv.conf
cp "$1/machine-id" /etc/machine-id

for place in /etc/cni /etc/plexus /opt/cni /var/lib/cni /var/lib/containerd /var/lib/containers /var/lib/kubelet \
	/var/lib/plexus /var/log/pods; do
	mkdir -p "$1$place" "$place"
	mount --bind "$1$place" "$place"
done
mkdir -p /run/netns /run/plexus

# The volumes of pods, and the namespaces that containerd makes, are passed on between here and containers.
mount --make-rshared /
