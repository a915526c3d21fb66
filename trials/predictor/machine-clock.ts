/** Milliseconds of the machine's monotonic clock, the same in every thread and process. */
export const machineNowMs = (): number => Number(process.hrtime.bigint()) / 1e6
