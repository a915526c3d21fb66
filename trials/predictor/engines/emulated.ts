/**
 * An engine whose device is a model of a GPU: every batch takes the modelled time, the device runs
 * one batch at a time, memory runs out by the model, and outputs are seeded numbers. All its
 * reports are marked emulated.
 */
import { getMachineNowMs } from '../../clock.ts'
import { type Architecture, findArchitecture, getInputKind } from '../../devices/architecture.ts'
import { computeUsableMemoryMiB, findGpu } from '../../devices/catalogue.ts'
import {
  type DeviceCall,
  predictDeviceLatency,
  predictGpuMemory,
} from '../../devices/device-model.ts'
import { findMigProfile } from '../../devices/mig.ts'
import {
  type Engine,
  type EngineInfo,
  type EngineOptions,
  OutOfMemoryError,
  type Tensor,
  type Tensors,
} from '../engine.ts'

export function createEngine(options: EngineOptions): Engine {
  const architecture = findArchitecture(options.model, options.own?.architectures)
  if (architecture.kind === 'decoder')
    throw new Error(
      `the emulated engine serves encoders and image models, but '${architecture.name}' generates text`,
    )
  if (options.gpu === undefined)
    throw new Error('the emulated engine needs a GPU to emulate: set --gpu, e.g. --gpu T4')
  const gpu = findGpu(options.gpu, options.own?.gpus)
  const mig = options.migProfile === undefined ? undefined : findMigProfile(gpu, options.migProfile)
  const call = (batch: number): DeviceCall => ({
    architecture,
    gpu,
    batch,
    precision: options.precision,
    ...(mig ? { mig } : { share: options.gpuMemoryPercent / 100, sharing: options.gpuSharing }),
    ...(getInputKind(architecture) === 'text' && { sequenceLength: options.sequenceLength }),
  })
  const device = new EmulatedDevice()
  let sleeper: Sleeper | undefined
  const availableMiB =
    mig?.memoryMiB ?? (computeUsableMemoryMiB(gpu) * options.gpuMemoryPercent) / 100
  const description = mig
    ? `a ${gpu.name} slice ${mig.name}`
    : `${options.gpuMemoryPercent} % of a ${gpu.name}`
  // Every instance holds its own context, weights and buffers.
  const neededMiB = (batch: number) => predictGpuMemory(call(batch)).mib * options.instances
  const allocate = (batch: number) => {
    const needed = neededMiB(batch)
    if (needed > availableMiB)
      throw new OutOfMemoryError(
        `CUDA out of memory (emulated): ${architecture.name}, batch ${batch}, ${options.instances} instance(s) need ${Math.ceil(needed)} MiB; ` +
          `${description} has ${Math.floor(availableMiB)} MiB`,
      )
    return needed
  }
  const tensors = describeTensors(architecture, options.sequenceLength)
  const latencyMs = new Map<number, number>()
  const getLatencyMs = (batch: number) => {
    const known = latencyMs.get(batch)
    if (known !== undefined) return known
    const { ms } = predictDeviceLatency(call(batch))
    latencyMs.set(batch, ms)
    return ms
  }
  let memoryMiB = 0

  return {
    name: 'emulated',
    provenance: 'emulated',
    device: `${gpu.name} (emulated)${mig ? `, slice ${mig.name}` : options.gpuMemoryPercent < 100 ? `, ${options.gpuMemoryPercent} % by ${options.gpuSharing}` : ''}`,
    async load(): Promise<EngineInfo> {
      memoryMiB = allocate(Math.max(1, options.warmUpBatch))
      getLatencyMs(options.batchSize)
      sleeper = new Sleeper()
      return { ...tensors, versions: { emulated: '1' }, memoryMiB }
    },
    async infer(inputs, sentAtMs) {
      const batch = Object.values(inputs)[0]!.shape[0]!
      memoryMiB = Math.max(memoryMiB, allocate(batch))
      const endMs = device.occupy(sentAtMs, getLatencyMs(batch))
      const outputs = createSeededOutputs(tensors.outputs, inputs, batch, options.seed)
      sleeper?.sleepUntil(endMs)
      return outputs
    },
    utilization: () => ({ busyMs: device.busyMs, memoryMiB }),
    close: async () => {},
  }
}

/** A device that runs one batch at a time. */
export class EmulatedDevice {
  #freeAtMs = 0
  busyMs = 0

  /**
   * Occupies the device for `durationMs` from `earliestMs` or from when it is free; returns the
   * end.
   */
  occupy(earliestMs: number, durationMs: number): number {
    this.#freeAtMs = Math.max(this.#freeAtMs, earliestMs) + durationMs
    this.busyMs += durationMs
    return this.#freeAtMs
  }
}

/** Shorter waits are skipped. */
const minWaitMs = 0.02
/** A later wake-up counts as this late: it is an exception, e.g. a busy machine. */
const maxLatenessMs = 0.3
/** Weight of the last wait in the mean lateness. */
const latenessSmoothing = 1 / 8
/** Waits before the first use, which find the lateness of this machine. */
const calibrationWaits = 5

/**
 * Blocks its thread, without using CPU, so that the server receives the answer at a given time. A
 * futex wait is more precise than timers of the event loop, but still wakes about 0.1 ms late. The
 * server's thread that receives the answer wakes as late, so the wait is shortened by twice the
 * mean lateness. Only for a thread without other work.
 */
export class Sleeper {
  readonly #futex = new Int32Array(new SharedArrayBuffer(4))
  #latenessMs = 0

  constructor() {
    for (let i = 0; i < calibrationWaits; i++) this.sleepUntil(getMachineNowMs() + 1)
  }

  sleepUntil(endMs: number): void {
    const leftMs = endMs - 2 * this.#latenessMs - getMachineNowMs()
    if (leftMs <= minWaitMs) return
    const wakeAtMs = getMachineNowMs() + leftMs
    Atomics.wait(this.#futex, 0, 0, leftMs)
    const latenessMs = Math.min(maxLatenessMs, Math.max(0, getMachineNowMs() - wakeAtMs))
    this.#latenessMs += (latenessMs - this.#latenessMs) * latenessSmoothing
  }
}

function describeTensors(
  architecture: Architecture,
  sequenceLength: number,
): Pick<EngineInfo, 'task' | 'inputs' | 'outputs'> {
  const inputKind = getInputKind(architecture)
  if (inputKind === 'tensor' && architecture.kind === 'graph')
    return {
      task: 'tensor',
      inputs: architecture.graph.inputs.map(({ name, isFloatingPoint, shape }) => ({
        name,
        datatype: isFloatingPoint ? ('FP32' as const) : ('INT32' as const),
        shape: [
          -1,
          ...shape.slice(1).map((size) => (typeof size === 'number' ? size : sequenceLength)),
        ],
      })),
      outputs: [
        { name: architecture.graph.outputs[0] ?? 'output', datatype: 'FP32', shape: [-1, 2] },
      ],
    }
  if (inputKind === 'image' && 'imageSize' in architecture)
    return {
      task: 'image',
      inputs: [
        {
          name: 'image',
          datatype: 'FP32',
          shape: [-1, architecture.imageSize, architecture.imageSize, 3],
        },
      ],
      outputs: [{ name: 'logits', datatype: 'FP32', shape: [-1, 1000] }],
    }
  return {
    task: 'text',
    inputs: [
      { name: 'input_ids', datatype: 'INT32', shape: [-1, sequenceLength] },
      { name: 'attention_mask', datatype: 'INT32', shape: [-1, sequenceLength] },
    ],
    outputs: [{ name: 'logits', datatype: 'FP32', shape: [-1, 2] }],
  }
}

/**
 * Numbers in (-1, 1) that depend on the seed and on the item's first input alone: the same item
 * always gets the same answer.
 */
function createSeededOutputs(
  specs: EngineInfo['outputs'],
  inputs: Tensors,
  batch: number,
  seed: number,
): Tensors {
  const first = Object.values(inputs)[0]!
  const width = first.data.length / batch
  const words = new Int32Array(first.data.buffer, first.data.byteOffset, first.data.length)
  const states = Array.from({ length: batch }, (_, item) => {
    let hash = seed | 0
    const step = Math.max(1, width >> 8)
    for (let i = item * width; i < (item + 1) * width; i += step)
      hash = Math.imul(hash ^ words[i]!, 0x01000193)
    return hash
  })
  const outputs: Record<string, Tensor> = {}
  for (const spec of specs) {
    const size = spec.shape.slice(1).reduce((a, b) => a * b, 1)
    const data = new Float32Array(batch * size)
    for (let item = 0; item < batch; item++) {
      let state = states[item]!
      for (let i = 0; i < size; i++) {
        // xorshift-multiply (Mulberry32)
        state = (state + 0x6d2b79f5) | 0
        let t = Math.imul(state ^ (state >>> 15), 1 | state)
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
        data[item * size + i] = ((t ^ (t >>> 14)) >>> 0) / 2 ** 31 - 1
      }
    }
    outputs[spec.name] = { datatype: 'FP32', shape: [batch, ...spec.shape.slice(1)], data }
  }
  return outputs
}
