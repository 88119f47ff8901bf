#!/bin/bash
# Becomes systemd as the first process of namespaces of its own, over a throw-away copy of this machine's root: nothing
# that happens inside is seen outside, but for the network, which is shared. When this process ends, all of it is gone.
#
#   boot.sh CGROUP PROJECT PYTHON SITE      the version 2 cgroup to live in, the checkout, the interpreter's prefix and
#                                           the folder of the libraries
set -euo pipefail

if [[ ${1:-} != inside ]]; then
    mkdir "$1"
    echo $$ >"$1/cgroup.procs"
    exec unshare --mount --pid --fork --kill-child --uts --ipc --cgroup --propagation private "$0" inside "${@:2}"
fi
project=$2 python=$3 site=$4

mount -t tmpfs tmpfs /mnt
mkdir /mnt/changes /mnt/scratch /mnt/system
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/changes,workdir=/mnt/scratch /mnt/system
cd /mnt/system

# Only what the tests ask for is started, and no device of the machine is in reach.
rm -rf usr/lib/systemd/system/*.wants etc/systemd/system/*.wants usr/lib/systemd/system-generators etc/fstab
ln -s /dev/null etc/systemd/system/systemd-journald-audit.socket
mkdir etc/systemd/system/basic.target.wants
ln -s /usr/lib/systemd/system/systemd-journald.service etc/systemd/system/basic.target.wants/
: >etc/machine-id
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,ro,bind proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
mount -t tmpfs tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
for name in null zero full random urandom tty; do
    touch "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done
ln -s /proc/self/fd dev/fd

# The checkout installed, under the path that the units name; the files of `make install` are the real ones.
mkdir -p opt/controllerd/{project,python,site}
mount --rbind -o ro "$project" opt/controllerd/project
mount --rbind -o ro "$python" opt/controllerd/python
mount --rbind -o ro "$site" opt/controllerd/site
chroot . /opt/controllerd/python/bin/python3 -m venv --without-pip /opt/controllerd/venv
printf '%s\n' /opt/controllerd/project /opt/controllerd/site >"$(echo opt/controllerd/venv/lib/python3*/site-packages)/installed.pth"
for entry in controllerd=controllerd.__main__ controllerctl=cli.__main__; do
    program=opt/controllerd/venv/bin/${entry%%=*}
    printf '#!/opt/controllerd/venv/bin/python\nimport sys\nfrom %s import main\nsys.exit(main())\n' "${entry#*=}" >"$program"
    chmod 755 "$program"
done
# An interpreter with a library of its own looks for it where it was built, which a unit may not see.
printf '[Manager]\nDefaultEnvironment=LD_LIBRARY_PATH=/opt/controllerd/python/lib\n' >etc/systemd/system.conf
make --silent --no-print-directory -C "$project" --assume-old=.venv/.ready install-files DESTDIR=/mnt/system PREFIX=/usr

mkdir former
pivot_root . former
umount -l /former
# As nspawn does: credentials of a unit are mounted by a process of its own, and would not be seen otherwise.
mount --make-rshared /
exec env -i container=controllerd-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /usr/lib/systemd/systemd --system --unit=basic.target --log-target=journal --show-status=0 </dev/null
