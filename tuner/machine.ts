/** What the experiment needs to know of the machine. */
import { catalogueName } from '../trials/launchers/holdings.ts'
import type { MachineFacts } from '../trials/machine/machine.ts'
import type { Surroundings } from './experiment/context.ts'

/** GPUs count only where a package can drive them: without one the built-in predictor has to emulate. */
export function surroundings(machine: MachineFacts): Surroundings {
  const drivable = machine.packages.some((p) => p.state === 'ok')
  const gpus = drivable ? machine.gpus.map((gpu) => catalogueName(gpu)).filter((name) => name !== undefined) : []
  return { cwd: process.cwd(), machine: { cpuCores: machine.affinity.length, gpus } }
}
