# shellcheck shell=bash
# What one ssh session a node does without Ansible: the same sshd and keys as the collection's.
# It prints this node's part, waits for the whole on standard input, and ends.
set -eu
dir=/run/by_hand
umask 077
mkdir -p $dir/ssh $dir/sshd
mkdir -p /run/sshd
chmod 0755 /run/sshd
ssh-keygen -q -t ed25519 -N '' -f $dir/sshd/host_key
ssh-keygen -q -t ed25519 -N '' -f $dir/ssh/id_ed25519
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
cat >$dir/sshd/config <<C
Port $port
HostKey $dir/sshd/host_key
AuthorizedKeysFile $dir/sshd/authorized_keys
PidFile $dir/sshd/pid
PasswordAuthentication no
StrictModes no
AcceptEnv LD_LIBRARY_PATH
C
/usr/sbin/sshd -t -f $dir/sshd/config
/usr/sbin/sshd -f $dir/sshd/config
mpirun --version | head -1 >/dev/null
echo "$port $(cut -d' ' -f1,2 <$dir/sshd/host_key.pub) $(cut -d' ' -f1,2 <$dir/ssh/id_ed25519.pub)"
# Each line begins with the file that it belongs to.
awk -v dir=$dir '{ file = $1; sub(/^[^ ]+ /, ""); print > (dir "/" file) }'
