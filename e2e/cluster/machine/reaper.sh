# SPDX-License-Identifier: Apache-2.0
# Removes what a cluster leaves outside of its namespaces, as soon as standard input ends: that is when the
# cluster is stopped, or when the process that started it has died. $1: the cluster's directory, $2: what the
# names of its control groups begin with. The cluster's processes are being killed at the same time: hence the second tries.

cat >/dev/null

remove() {
	find /sys/fs/cgroup/"$2"* /sys/fs/cgroup/*/"$2"* -depth -type d -exec rmdir {} + 2>/dev/null
	rm -rf "$1" 2>/dev/null
	for left in "$1" /sys/fs/cgroup/"$2"* /sys/fs/cgroup/*/"$2"*; do
		[ ! -e "$left" ] || return 1
	done
}

tries=0
until remove "$@"; do
	tries=$((tries + 1))
	[ "$tries" -lt 100 ] || { echo "cannot remove $left" >&2; exit 1; }
	sleep 0.1
done
