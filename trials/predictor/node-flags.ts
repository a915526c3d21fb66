/**
 * What Node is started with where it serves models, here and in images. Threads that collect
 * garbage beside a server on one core take that core from it: at three quarters of its load, every
 * minute or two, requests heaped up for seconds, those kept so long were garbage of the dear kind,
 * and it fell behind further. On two cores it makes no difference.
 */
export const nodeFlags: readonly string[] = ['--single-threaded-gc']
