/*
 * A plain open-loop client to check the load generator by, which shares nothing with it: one thread sends POSTs at times read from stdin (ms from the
 * start, one a line), another reads the answers. Each is timed from its intended send. Prints one latency a line, ms, in the order of sends; -1 for none.
 *
 *   cc -O2 -pthread -o plain-client plain-client.c && ./plain-client PORT PATH BODY < times
 *
 * Answers must come in one piece, as short ones do on loopback. A connection carries one request at a time; more are opened as needed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_CONNECTIONS 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int idle[MOST_CONNECTIONS], idles;
static long request_on[65536];
static double *latency, *at_ms;
static long requests, answered;
static double start_ms;
static int poller, port;

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static int open_connection(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) return -1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
  epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
  return fd;
}

static void *read_answers(void *unused) {
  char buffer[65536];
  struct epoll_event events[64];
  (void)unused;
  for (;;) {
    int n = epoll_wait(poller, events, 64, 100);
    double now = now_ms() - start_ms;
    for (int i = 0; i < n; i++) {
      int fd = events[i].data.fd;
      ssize_t got = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      pthread_mutex_lock(&lock);
      if (got <= 0) close(fd);
      else {
        if (memmem(buffer, got, " 200 ", 5)) latency[request_on[fd]] = now - at_ms[request_on[fd]];
        if (idles < MOST_CONNECTIONS) idle[idles++] = fd;
      }
      answered++;
      pthread_mutex_unlock(&lock);
    }
  }
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 4) return fprintf(stderr, "usage: plain-client PORT PATH BODY < times\n"), 2;
  port = atoi(argv[1]);
  char request[8192];
  int length = snprintf(request, sizeof request, "POST %s HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
                        argv[2], port, strlen(argv[3]), argv[3]);
  long room = 1024;
  at_ms = malloc(room * sizeof *at_ms);
  for (double ms; scanf("%lf", &ms) == 1; at_ms[requests++] = ms)
    if (requests == room) at_ms = realloc(at_ms, (room *= 2) * sizeof *at_ms);
  latency = malloc(requests * sizeof *latency);
  for (long i = 0; i < requests; i++) latency[i] = -1;
  poller = epoll_create1(0);
  start_ms = now_ms() + 20;
  pthread_t reader;
  pthread_create(&reader, NULL, read_answers, NULL);
  for (long i = 0; i < requests; i++) {
    double when = start_ms + at_ms[i];
    struct timespec t = {.tv_sec = when / 1e3, .tv_nsec = (long)((when - 1e3 * (long)(when / 1e3)) * 1e6)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    pthread_mutex_lock(&lock);
    int fd = idles > 0 ? idle[--idles] : open_connection();
    if (fd < 0) answered++;
    else {
      request_on[fd] = i;
      if (send(fd, request, length, MSG_NOSIGNAL) != length) answered++;
    }
    pthread_mutex_unlock(&lock);
  }
  for (int waited = 0; waited < 200 && answered < requests; waited++) usleep(10000);
  for (long i = 0; i < requests; i++) printf("%.4f\n", latency[i]);
  return 0;
}
