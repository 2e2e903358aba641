/* A disk that fails, is full or is slow, as the first byte of the file $FAULTY_DISK says.
 *
 * Preloaded into a process: "o" all is well, "f" writes find no room, "s" syncs fail, "w" each sync
 * takes half a second. Descriptors that are no files, as sockets, are left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char mode(int fd) {
    static volatile char *said;
    struct stat found;
    if (!said) {
        int file = open(getenv("FAULTY_DISK"), O_RDONLY);
        void *page = mmap(NULL, 1, PROT_READ, MAP_SHARED, file, 0);
        close(file);
        if (page == MAP_FAILED) abort();
        said = page;
    }
    return fstat(fd, &found) || !(S_ISREG(found.st_mode) || S_ISDIR(found.st_mode)) ? 'o' : *said;
}

static int synced(int fd, const char *name) {
    int (*real)(int) = dlsym(RTLD_NEXT, name);
    char now = mode(fd);
    if (now == 's') return errno = EIO, -1;
    if (now == 'w') usleep(500000);
    return real(fd);
}

int fsync(int fd) { return synced(fd, "fsync"); }
int fdatasync(int fd) { return synced(fd, "fdatasync"); }

ssize_t write(int fd, const void *data, size_t size) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    return mode(fd) == 'f' ? (errno = ENOSPC, -1) : real(fd, data, size);
}

static ssize_t written(int fd, const void *data, size_t size, off_t at) {
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    return mode(fd) == 'f' ? (errno = ENOSPC, -1) : real(fd, data, size, at);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return written(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) { return written(fd, data, size, at); }
