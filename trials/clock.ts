/**
 * The only module that reads the time. Durations, deadlines and costs use the monotonic clock,
 * which neither steps with the date nor runs while the machine sleeps. The date is read once.
 */
const startedAtMs = Date.now()
const startedMs = performance.now()

/**
 * Milliseconds since 1970: the date at the start of the process plus monotonic time. For timestamps
 * whose differences are durations.
 */
export const getSteadyNowMs = (): number => startedAtMs + (performance.now() - startedMs)

/** Milliseconds of the machine's monotonic clock, the same in every thread and process. */
export const getMachineNowMs = (): number => Number(process.hrtime.bigint()) / 1e6
