/**
 * Milliseconds of a batch in the tfjs engine on CPU, models by sequence lengths: what
 * `trials/launchers/simulated/modelled-server.ts` takes for a device that is this machine's CPU.
 */
import { parseArgs } from 'node:util'
import type { Tensors } from '../predictor/engine.ts'
import { createEngine } from '../predictor/engines/tfjs.ts'

/** CPU time beside wall time: on a busy machine the former still tells what the work costs. */
const cpuMs = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

export async function printEngineTimes(args: readonly string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: { threads: { type: 'string', default: '1' }, batch: { type: 'string', default: '1' } },
    allowPositionals: true,
  })
  const cpuThreads = Number(values.threads)
  const batch = Number(values.batch)
  const models =
    positionals.length > 0
      ? positionals
      : ['bert-tiny', 'bert-mini', 'bert-small', 'bert-base', 'mobilenet', 'resnet50']
  /** Per case, so that the whole bench stays short. */
  const secondsPerCase = 2

  console.log(`batch ${batch}, ${cpuThreads} thread(s); ms per batch`)
  console.log('model          length  load s    wall p50   wall min   cpu mean   runs   RSS MiB')
  for (const model of models) {
    for (const sequenceLength of /^(resnet|mobilenet)/.test(model) ? [128] : [32, 128]) {
      const engine = createEngine({
        model,
        batchSize: batch,
        sequenceLength,
        precision: 'fp32',
        gpuMemoryPercent: 100,
        gpuSharing: 'time-slice',
        instances: 1,
        warmUpBatch: batch,
        cpuThreads,
        seed: 0,
      })
      const started = performance.now()
      const info = await engine.load()
      const loadSeconds = (performance.now() - started) / 1000
      const inputs: Tensors = Object.fromEntries(
        info.inputs.map(({ name, datatype, shape }) => {
          const whole = [batch, ...shape.slice(1)]
          const size = whole.reduce((a, b) => a * b, 1)
          const data =
            datatype === 'INT32' ? new Int32Array(size).fill(1) : new Float32Array(size).fill(0.5)
          return [name, { datatype, shape: whole, data }]
        }),
      )
      const wall: number[] = []
      const cpuBefore = cpuMs()
      const end = performance.now() + secondsPerCase * 1000
      while (wall.length < 3 || performance.now() < end) {
        const before = performance.now()
        await engine.infer(inputs, 0)
        wall.push(performance.now() - before)
      }
      const cpu = (cpuMs() - cpuBefore) / wall.length
      wall.sort((a, b) => a - b)
      const columns = [
        loadSeconds.toFixed(1),
        wall[wall.length >> 1]!.toFixed(2),
        wall[0]!.toFixed(2),
        cpu.toFixed(2),
        wall.length,
        engine.utilization!().memoryMiB,
      ]
      const text = info.task === 'text' ? String(sequenceLength) : '-'
      console.log(
        model.padEnd(14),
        text.padStart(6),
        ...columns.map((c, i) => String(c).padStart([7, 11, 10, 10, 6, 9][i]!)),
      )
      await engine.close()
    }
  }
}
