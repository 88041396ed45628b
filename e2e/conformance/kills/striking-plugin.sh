#!/bin/sh
# In place of a plugin, which it runs: beside it are the real ones, and `events`, which gets a line before and after each
# execution. When it gets line N of `strike` ("N victim"), that process is killed: the plugin, the shim, its engine, or the
# process of that number. The victim `hold` has the plugin wait until the file `hold` is removed.
here=$(dirname "$0")
type=$(basename "$0")
input=$(cat)

# The nearest process above this one that is the shim.
find_shim() {
	pid=$PPID
	until case $(readlink "/proc/$pid/exe") in */plexus) true ;; *) false ;; esac do
		pid=$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status")
	done
	echo "$pid"
}

kill_victim() {
	case $1 in
	hold)
		while [ -e "$here/hold" ]; do sleep 0.05; done
		return
		;;
	[0-9]*)
		kill -9 "$1"
		sleep 0.3
		return
		;;
	esac
	shim=$(find_shim)
	case $1 in
	plugin) kill -9 $$ ;;
	shim) kill -9 "$shim" ;;
	plexus-standalone)
		for pid in $(cat "/proc/$shim/task/$shim/children"); do
			case $(readlink "/proc/$pid/exe") in */plexus-standalone) kill -9 "$pid" && sleep 0.3 && return ;; esac
		done
		# One that has stayed after a call: of this node, which has its mount namespace.
		for dir in /proc/[0-9]*; do
			[ "$(readlink "$dir/ns/mnt")" = "$(readlink /proc/$$/ns/mnt)" ] || continue
			case $(readlink "$dir/exe") in */plexus-standalone) kill -9 "${dir#/proc/}" ;; esac
		done
		;;
	esac
	sleep 0.3 # the kernel kills this process with the shim
}

event() {
	echo "$1 $CNI_COMMAND $type" >>"$here/events"
	[ -e "$here/strike" ] || return 0
	read -r number victim <"$here/strike"
	[ "$(wc -l <"$here/events")" = "$number" ] || return 0
	rm "$here/strike"
	kill_victim "$victim"
}

event before
printf %s "$input" | "$here/real/$type"
status=$?
event after
exit $status
