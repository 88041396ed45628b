# What systemd does for a socket unit and its service: listens on SOCKET, starts COMMAND when a connection waits,
# with the listening socket as descriptor 3, and again after it has ended. It accepts nothing itself.
# usage: perl socket-activation.pl SOCKET COMMAND...
use strict;
use warnings;
use IO::Select;
use IO::Socket::UNIX;
use POSIX;

$| = 1;
my $path = shift @ARGV;
my $socket = IO::Socket::UNIX->new(Local => $path, Listen => 4096) or die "$path: $!";
chmod 0600, $path;
for (;;) {
	IO::Select->new($socket)->can_read;
	my $pid = fork // die "fork: $!";
	if ($pid == 0) {
		POSIX::dup2(fileno($socket), 3) // die "dup2: $!" if fileno($socket) != 3;
		fcntl(IO::Handle->new_from_fd(3, "r+"), 2, 0) if fileno($socket) == 3;
		@ENV{"LISTEN_FDS", "LISTEN_PID"} = (1, $$);
		exec @ARGV or die "$ARGV[0]: $!";
	}
	print "started $pid\n";
	waitpid $pid, 0;
	print "ended $?\n";
}
