/** A store of very many trials, for the tests and the bench of the page. */
import { complete, measured } from '../../reports/samples.contract.ts'
import { Connection } from '../../trials/store/connection.ts'
import { openStore } from '../../trials/store/index.ts'
import { encode } from '../../trials/store/infinity-json.ts'
import { digestTrial } from '../../trials/store/stored-rows.ts'
import { document } from './samples.contract.ts'

const gpus = ['T4', 'L4', 'A10G', 'V100', 'A100-40GB']
/** Trials written at once. */
const batch = 500

/** Distinct configurations, five load steps each; capacities after a queue's formula. */
function trial(n: number) {
  const i = n - 1
  const gpu = gpus[i % 5]!
  const batchSize = 2 ** (Math.floor(i / 5) % 8)
  const gpuMemoryPercent = 5 * (1 + (Math.floor(i / 40) % 20))
  const cpuCores = 1 + Math.floor(i / 800)
  const speed = 40 * (1 + (i % 5)) * batchSize ** 0.6 * (gpuMemoryPercent / 100) ** 0.7
  const unloadedMs = (1000 / speed) * batchSize ** 0.7 * (1 + 0.1 * Math.sin(i))
  const { points, ...measurement } = measured(
    speed * (1 + 0.05 * Math.sin(7 * i)) * Math.min(4, cpuCores),
    unloadedMs,
  )
  const whole = complete(
    n,
    { cpuCores, gpu, gpuMemoryPercent, batchSize },
    { ...measurement, points: [] },
  )
  return { ...whole, measurement, points }
}

/** Writes an experiment 'many' of so many trials to a store that is not there yet. */
export async function storeManyTrials(path: string, count: number): Promise<void> {
  const store = await openStore(path)
  const space = {
    cpuCores: [1, 2, 4, 8],
    gpu: gpus,
    gpuMemoryPercent: [5, 25, 50, 100],
    batchSize: [1, 8, 32, 128],
  }
  await store.create({
    id: 'many',
    name: 'many',
    createdAt: new Date().toISOString(),
    spec: { ...document, name: 'many', space },
    provenance: 'simulated',
    seed: 1,
  })
  await store.finish('many', 'done')
  await store.close()
  const connection = await Connection.open(path, 5_000)
  await connection.write(async (sql) => {
    for (let from = 1; from <= count; from += batch) {
      const some = Array.from({ length: Math.min(batch, count - from + 1) }, (_, i) => {
        const { points, ...rest } = trial(from + i)
        return { number: rest.number, text: encode(rest), points: points.map(encode) }
      })
      await sql.run(
        "INSERT INTO trials (experiment_id, number, trial, digest) SELECT 'many', value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)",
        [
          JSON.stringify(
            some.map(({ number, text, points }) => [
              number,
              text,
              digestTrial({ experiment_id: 'many', number, trial: text }, points),
            ]),
          ),
        ],
      )
      await sql.run(
        "INSERT INTO load_points (experiment_id, trial_number, position, point) SELECT 'many', value ->> 0, value ->> 1, value ->> 2 FROM json_each(?)",
        [
          JSON.stringify(
            some.flatMap(({ number, points }) =>
              points.map((point, position) => [number, position, point]),
            ),
          ),
        ],
      )
    }
  })
  await connection.close()
}
