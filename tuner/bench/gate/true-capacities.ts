/**
 * True capacities of the gate's virtual servers by long simulation: `node --import tsx
 * tuner/bench/gate/true-capacities.ts` rewrites true-capacities.json, in about three minutes of
 * CPU. They belong to the seed of the servers (seeds.ts). Within about half a percent: 3 runs of
 * 60,000 requests at each rate.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { trueCapacity } from '../../../profiler/bench/truth.bench.ts'
import { gateServers } from '../../../profiler/testing/gate-servers.ts'
import { runParallel } from '../../../search/bench/parallel.ts'
import { gateSeeds } from './seeds.ts'

const file = new URL('./true-capacities.json', import.meta.url)
const effort = {
  runs: 3,
  requests: 60_000,
  minRunS: 60,
  bracketRequests: 15_000,
  maxBracket: 1.015,
}

/**
 * Requests per second by the server's name.
 * @throws Error when the file is missing
 */
export function gateCapacities(): Readonly<Record<string, number>> {
  if (!existsSync(file))
    throw new Error(
      'tuner/bench/gate/true-capacities.json is missing: run tuner/bench/gate/true-capacities.ts',
    )
  return JSON.parse(readFileSync(file, 'utf8'))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const servers = gateServers(gateSeeds.servers)
  if (process.send)
    process.on('message', ({ index }: { index: number }) =>
      process.send!(Number(trueCapacity(servers[index]!, effort).toPrecision(5))),
    )
  else {
    const found = new Map<number, number>()
    await runParallel<{ index: number }, number>(
      new URL(import.meta.url),
      [],
      servers.map((_, index) => ({ index })),
      Number(process.argv[2] ?? 2),
      ({ index }, rps) => {
        found.set(index, rps)
        console.error(`${found.size} of ${servers.length}: ${servers[index]!.name}: ${rps} req/s`)
      },
    )
    const byName = Object.fromEntries(servers.map(({ name }, i) => [name, found.get(i)]))
    writeFileSync(file, `${JSON.stringify(byName, null, 2)}\n`)
  }
}
