import type { LoadRun } from '../model/load-run.ts'

/**
 * Share of a window: of waiting for a core, or of time in which the generator's process stood
 * still.
 */
const maxDisturbedShare = 0.003

/**
 * What others may have run on two cores without the clock of /proc/stat telling, all of it at once:
 * it moves the slowest requests alone.
 */
export const unseenMs = 20

/**
 * How far the machine disturbed a window, as the window itself tells: what it says of the server is
 * not certain. Undefined: by no more than may be.
 * @param most share that moves what is asserted by less than it may be off
 */
export function disturbedBy(
  { machineWait = {}, generatorPausesMs = new Float64Array(), seconds }: LoadRun,
  most = maxDisturbedShare,
): string | undefined {
  const stalledMs = generatorPausesMs.reduce((sum, at, i) => sum + (i % 2 === 0 ? -at : at), 0)
  const { server = 0, generator = 0, stolen = 0 } = machineWait
  const worst = Math.max(server, generator, stolen, stalledMs / 1000 / seconds)
  return worst > most
    ? `disturbed: server or generator were kept from a core for ${(100 * worst).toFixed(1)} % of the window`
    : undefined
}

/** Skips a test whose window the machine disturbed. */
export function skipIfDisturbed(run: LoadRun, skip: (note: string) => void, most?: number): void {
  const disturbed = disturbedBy(run, most)
  if (disturbed !== undefined) skip(disturbed)
}
