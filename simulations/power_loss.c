/* What a disk holds after a power cut, if nothing survives that was not synced.
 *
 * Preloaded into a process, it keeps in $POWER_LOSS_DISK a copy of every file as of its last fsync or
 * fdatasync, named "file-INODE", and of every folder's names as of its last, "folder-INODE":
 * "d INODE name" or "f INODE name" a line. power_loss.py puts the disk together.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void place(char *path, const char *kind, unsigned long inode, const char *end) {
    snprintf(path, 4096, "%s/%s-%lu%s", getenv("POWER_LOSS_DISK"), kind, inode, end);
}

static void keep_file(int fd, const char *part) { /* a second descriptor, closed, would drop locks */
    static __thread char block[1 << 16];
    int out = open(part, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    off_t at = 0;
    ssize_t some;
    while (out >= 0 && (some = pread(fd, block, sizeof block, at)) > 0) {
        if (write(out, block, some) != some) abort();
        at += some;
    }
    if (out >= 0) close(out);
}

static void keep_folder(int fd, const char *part) {
    FILE *out = fopen(part, "w");
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    DIR *folder = opendir(self);
    struct dirent *one;
    while (out && folder && (one = readdir(folder)))
        if (strcmp(one->d_name, ".") && strcmp(one->d_name, ".."))
            fprintf(out, "%c %lu %s\n", one->d_type == DT_DIR ? 'd' : 'f',
                    (unsigned long)one->d_ino, one->d_name);
    if (folder) closedir(folder);
    if (out) fclose(out);
}

static void keep(int fd) {
    struct stat found;
    char part[4096], whole[4096], end[64];
    if (!getenv("POWER_LOSS_DISK") || fstat(fd, &found)) return;
    const char *kind = S_ISDIR(found.st_mode) ? "folder" : "file";
    snprintf(end, sizeof end, ".%d.part", gettid());
    place(part, kind, found.st_ino, end);
    place(whole, kind, found.st_ino, "");
    if (S_ISDIR(found.st_mode)) keep_folder(fd, part);
    else keep_file(fd, part);
    rename(part, whole);
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    int status = real(fd);
    if (!status) keep(fd);
    return status;
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    int status = real(fd);
    if (!status) keep(fd);
    return status;
}
