/**
 * What a reader must know of this machine's GPUs before anything else: why one is not used, and
 * what is odd about one that is.
 */
import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import {
  builtinProtocol,
  type ComputingEngine,
  missingGpuDriver,
} from '../../trials/launchers/builtin.ts'
import { isStarted } from '../../trials/launchers/template.ts'
import { gpuWarnings, isWhole } from '../../trials/machine/gpu-offer.ts'
import type { MachineFacts } from '../../trials/machine/machine-facts.ts'
import type { Experiment } from '../experiment/types.ts'

/**
 * Why the built-in server leaves the GPUs alone, and what to install; undefined: it uses them, or
 * there is none.
 * @param engines those that could run the model, the first of them preferred
 */
export function whyUnused(
  engines: readonly ComputingEngine[],
  machine: MachineFacts,
): string | undefined {
  const names = [...new Set(machine.gpus.filter(canRun).map(({ name }) => name))]
  const missing = engines
    .map((engine) => missingGpuDriver(engine, machine))
    .reduce((known, one) => (known === undefined || one === undefined ? undefined : known))
  if (names.length === 0 || missing === undefined) return undefined
  const them = names.length === 1 ? 'it' : 'them'
  return `${names.join(', ')} ${names.length === 1 ? 'is' : 'are'} not used, because the built-in server cannot use ${them} (${missing.what}): ${missing.install}. To use ${them} with your own server, add --command`
}

const canRun = (gpu: MachineFacts['gpus'][number]): boolean =>
  isWhole(gpu) || gpu.migDevices.length > 0

/** In the order of weight; empty where trials run elsewhere. */
export function gpuNotices(experiment: Experiment, machine: MachineFacts): string[] {
  const { backend, predictor, devices, devicesUsed } = experiment
  if (backend !== 'local' || !isStarted(predictor)) return []
  const problem =
    machine.gpuProblem === undefined || devices === 'cpu'
      ? []
      : [`GPU not used: ${machine.gpuProblem}`]
  const warnings = machine.gpus.flatMap((gpu) => gpuWarnings(gpu, machine.mps))
  if (devicesUsed === 'gpu') return [...problem, ...warnings]
  // Who says cpu or emulated means it.
  if (devices !== 'auto') return []
  const unused = predictor.kind === 'builtin' ? unusedBy(experiment, machine) : undefined
  return [...problem, ...(unused === undefined ? warnings : [unused])]
}

/**
 * Files of TensorFlow.js run in its engine alone, ONNX files in theirs, built-in models in either;
 * language models are emulated.
 */
function unusedBy({ model, predictor }: Experiment, machine: MachineFacts): string | undefined {
  if (predictor.kind === 'builtin' && predictor.engine === 'gguf')
    return whyUnused(['gguf'], machine)
  const names = machine.gpus.filter(canRun).map(({ name }) => name)
  if (
    names.length > 0 &&
    protocolTable[predictor.kind === 'builtin' ? builtinProtocol(predictor) : predictor.protocol]
      .streams
  )
    return `${[...new Set(names)].join(', ')} not used, because the built-in server only emulates language models; set a real server such as vLLM with --command`
  if (model.path === undefined) return whyUnused(['onnx', 'tfjs'], machine)
  return whyUnused([model.path.endsWith('.onnx') ? 'onnx' : 'tfjs'], machine)
}
