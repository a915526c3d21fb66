/** What a reader must know before believing a figure: where it comes from, and how far it may be off. */
import type { MachineFacts } from '../trials/machine/machine.ts'
import type { Provenance } from '../trials/types.ts'
import type { Experiment } from './experiment/types.ts'

/** Simulated: virtual time. Emulated: real processes and load, the GPU's time modelled. Measured: nothing is modelled. */
export function provenanceOf(experiment: Experiment): Provenance {
  if (experiment.backend === 'simulated') return 'simulated'
  return experiment.devicesUsed === 'emulated' ? 'emulated' : 'measured'
}

function gpusOf(experiment: Experiment): readonly string[] {
  const gpu = experiment.space.parameters.find((parameter) => parameter.name === 'gpu')
  return gpu?.kind === 'categorical' ? gpu.values.filter((name) => name !== 'none') : []
}

/** Which devices the trials will use, in one line. */
export function devicesLine(experiment: Experiment, machine: MachineFacts, provenance: Provenance): string {
  const gpus = gpusOf(experiment)
  const cores = experiment.backend === 'simulated' ? [] : [`${machine.affinity.length} of ${machine.cores} cores (${machine.cpuModel})`]
  const named = gpus.length > 0 ? `${gpus.join(', ')}${provenance === 'measured' ? '' : ` (${provenance})`}` : 'no GPU'
  return `Devices: ${[...cores, named].join('; ')}`
}

/** Banners a reader must not miss; also the caveats of the recommendation. */
export function noticesOf(provenance: Provenance): string[] {
  switch (provenance) {
    case 'emulated':
      return ['The GPUs are EMULATED: real predictor processes under real load, but a device model stands in for the GPU.']
    case 'simulated':
      return ['SIMULATED: nothing is launched or measured; every figure comes from the device model in virtual time.']
    case 'measured':
      return []
  }
}
