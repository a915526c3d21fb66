/**
 * Time, in its one home. Durations, deadlines and money go by a clock that nobody sets: it neither
 * steps with the machine's date nor runs on while the machine sleeps. The date is read once.
 */
const startedAtMs = Date.now()
const startedMs = performance.now()

/**
 * Milliseconds since 1970 by the date as it was when this process started, counted on steadily: for
 * stamps whose differences are durations.
 */
export const steadyNowMs = (): number => startedAtMs + (performance.now() - startedMs)

/** Milliseconds of the machine's monotonic clock, the same in every thread and process. */
export const machineNowMs = (): number => Number(process.hrtime.bigint()) / 1e6
