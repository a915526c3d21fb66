import type { LoadRun } from '../types.ts'

/** Share of a window: of waiting for a core, or of time in which the generator's process stood still. */
const mostDisturbed = 0.003

/** What others may have run on two cores without the clock of /proc/stat telling, all of it at once: it moves the slowest requests alone. */
export const unseenMs = 20

/**
 * Skips a test whose window the machine disturbed, as the window itself tells: what it says of the server is not certain.
 * @param most share that moves what is asserted by less than it may be off
 */
export function skipIfDisturbed(
  { machineWait = {}, stallsMs = new Float64Array(), seconds }: LoadRun,
  skip: (note: string) => void,
  most = mostDisturbed,
): void {
  const stalledMs = stallsMs.reduce((sum, at, i) => sum + (i % 2 === 0 ? -at : at), 0)
  const { server = 0, generator = 0, stolen = 0 } = machineWait
  const worst = Math.max(server, generator, stolen, stalledMs / 1000 / seconds)
  if (worst > most) skip(`disturbed: server or generator were kept from a core for ${(100 * worst).toFixed(1)} % of the window`)
}
