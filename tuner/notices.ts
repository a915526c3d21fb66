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

/** Banners, in the order they are shown. */
export function noticesOf(experiment: Experiment, machine: MachineFacts, provenance: Provenance): string[] {
  const gpus = gpusOf(experiment)
  const cores = `${machine.affinity.length} of ${machine.cores} cores (${machine.cpuModel})`
  const devices = gpus.length > 0 ? `${gpus.join(', ')}` : 'no GPU'
  const notices = [
    `Devices: ${experiment.backend === 'simulated' ? '' : `${cores}; `}${devices}${gpus.length > 0 && provenance !== 'measured' ? ` (${provenance})` : ''}.`,
  ]
  if (provenance === 'emulated') {
    notices.push('The GPUs are EMULATED: real predictor processes under real load, but a device model stands in for the GPU.')
  }
  if (provenance === 'simulated')
    notices.push('SIMULATED: nothing is launched or measured; every figure comes from the device model in virtual time.')
  return notices
}
