/** What the experiment needs to know of the machine. */
import { catalogueName } from '../../trials/launchers/local/holdings.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import type { Surroundings } from './context.ts'

/** A GPU counts for the built-in predictor only where the package that drives it works; a user's own command may use every GPU there is. */
export function surroundings(machine: MachineFacts): Surroundings {
  const drives = (name: string) => machine.packages.some((p) => p.name === name && p.state === 'ok' && p.gpuProblem === undefined)
  const gpus = machine.gpus.map((gpu) => catalogueName(gpu))
  return {
    cwd: process.cwd(),
    machine: {
      cpuCores: machine.affinity.length,
      gpus,
      builtinGpus: drives('@tensorflow/tfjs-node-gpu') ? gpus : [],
      onnxGpus: drives('onnxruntime-node') ? gpus : [],
    },
  }
}
