/** What the experiment needs to know of the machine. */
import { catalogueName } from '../trials/launchers/holdings.ts'
import type { MachineFacts } from '../trials/machine/machine.ts'
import type { Surroundings } from './experiment/context.ts'

/** A GPU counts for the built-in predictor only where the package that drives it works; a user's own command may use every GPU there is. */
export function surroundings(machine: MachineFacts): Surroundings {
  const driver = machine.packages.find((p) => p.name === '@tensorflow/tfjs-node-gpu')
  const gpus = machine.gpus.map((gpu) => catalogueName(gpu))
  return { cwd: process.cwd(), machine: { cpuCores: machine.affinity.length, gpus, builtinGpus: driver?.state === 'ok' ? gpus : [] } }
}
