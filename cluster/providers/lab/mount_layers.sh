# Mounts the root file system of a host from the layers in the current folder.
mount -t overlay overlay -o "lowerdir=$(cat ../../root),upperdir=upper,workdir=work" root
cd root
mount -t proc proc proc
mount -t sysfs sysfs sys
[ ! -d /sys/fs/cgroup ] || mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --bind /dev dev
mount -t tmpfs -o mode=1777 shm dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o mode=755 run run
mkdir run/sshd run/old
pivot_root . run/old
cd /
umount -l run/old
rmdir run/old
