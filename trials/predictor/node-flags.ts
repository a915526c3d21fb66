/**
 * Flags of Node for serving models, here and in images. On one core, concurrent garbage collection
 * takes the core from the server. At 75 % load, this caused backlogs of seconds every one or two
 * minutes. On two cores it makes no difference.
 */
export const nodeFlags: readonly string[] = ['--single-threaded-gc']
