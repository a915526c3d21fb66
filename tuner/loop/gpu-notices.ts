/** Notices about the GPUs of this machine: why one is not used, what limits one. */
import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import {
  type ComputingEngine,
  findGpuSupportFault,
  getBuiltinProtocol,
} from '../../trials/launchers/builtin.ts'
import { isStarted } from '../../trials/launchers/template.ts'
import { isWhole, listGpuWarnings } from '../../trials/machine/gpu-offer.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import type { Experiment } from '../config/types.ts'

/**
 * Explains why the built-in server does not use the GPUs, and what to install. Undefined: it uses
 * them, or there is none.
 * @param engines engines that could run the model, the preferred one first
 */
export function explainUnusedGpus(
  engines: readonly ComputingEngine[],
  machine: MachineFacts,
): string | undefined {
  const names = listUsableGpus(machine)
  const missingDrivers = engines.map((engine) => findGpuSupportFault(engine, machine))
  const missingDriver = missingDrivers.includes(undefined) ? undefined : missingDrivers[0]
  if (names.length === 0 || missingDriver === undefined) return undefined
  const them = names.length === 1 ? 'it' : 'them'
  return `${names.join(', ')} ${names.length === 1 ? 'is' : 'are'} not used, because the built-in server cannot use ${them} (${missingDriver.what}): ${missingDriver.install}. To use ${them} with your own server, add --command`
}

const listUsableGpus = ({ gpus }: MachineFacts): readonly string[] => {
  const usable = gpus.filter((gpu) => isWhole(gpu) || gpu.migDevices.length > 0)
  return [...new Set(usable.map(({ name }) => name))]
}

/** Lists the notices, the most important one first; none if trials run elsewhere. */
export function listGpuNotices(experiment: Experiment, machine: MachineFacts): string[] {
  const { backend, predictor, devices, devicesUsed } = experiment
  if (backend !== 'local' || !isStarted(predictor)) return []
  const problem =
    machine.gpuProblem === undefined || devices === 'cpu'
      ? []
      : [`GPU not used: ${machine.gpuProblem}`]
  const warnings = machine.gpus.flatMap((gpu) => listGpuWarnings(gpu, machine.mps))
  if (devicesUsed === 'gpu') return [...problem, ...warnings]
  // --devices cpu and --devices emulated are deliberate.
  if (devices !== 'auto') return []
  const unused =
    predictor.kind === 'builtin' ? explainUnusedByModel(experiment, machine) : undefined
  return [...problem, ...(unused === undefined ? warnings : [unused])]
}

/**
 * Explains unused GPUs by the engine of the model. TensorFlow.js and ONNX files run only in their
 * own engine, built-in models in either of the two, and language models are emulated.
 */
function explainUnusedByModel(
  { model, predictor }: Experiment,
  machine: MachineFacts,
): string | undefined {
  if (predictor.kind === 'builtin' && predictor.engine === 'gguf')
    return explainUnusedGpus(['gguf'], machine)
  const protocol = predictor.kind === 'builtin' ? getBuiltinProtocol(predictor) : predictor.protocol
  const names = listUsableGpus(machine)
  if (names.length > 0 && protocolTable[protocol].streams)
    return `${names.join(', ')} not used, because the built-in server only emulates language models; set a real server such as vLLM with --command`
  if (model.path === undefined) return explainUnusedGpus(['onnx', 'tfjs'], machine)
  return explainUnusedGpus([model.path.endsWith('.onnx') ? 'onnx' : 'tfjs'], machine)
}
