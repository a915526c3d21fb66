/**
 * How often a confirmation is right, and how long it takes, in virtual time: `npm run
 * bench:confirmation -- [seeds] [servers] [shares] [least proven] [alone]`. At each share of the
 * true capacity (truth.json): how often the SLO there is confirmed (proven), confirmed at a lower
 * rate, down to the least one as a share of that asked for, held without proof, and missed (with
 * `alone`: at lower rates than that too, for there is nothing else to try); the seconds under load
 * and the rate that is found. A rate beyond the capacity that is confirmed is the error that the
 * rule's 1 to 5 % are about.
 */
import { mean } from 'simple-statistics'
import { confirmCapacity } from '../capacity/confirmation/confirm.ts'
import { drawnCases } from '../testing/drawn-servers.ts'
import { simpleCases } from '../testing/simple-servers.ts'
import { slowCases } from '../testing/slow-servers.ts'
import { slowTimesCases, smallModelCases } from '../testing/small-model-servers.ts'
import { type VirtualCase, virtualCases } from '../testing/virtual-servers.ts'
import { trueCapacities } from './truth.bench.ts'

const [
  ,
  ,
  seedsAsked = '40',
  servers = '^(FIFO 8 ms|batches|two workers|FIFO 4 ms, 30|GPU batch 32|CPU batch|CPU, then|batch 16, 60)',
  asked = '0.93,0.97,1,1.03,1.06',
  leastProvenAsked = '0.8',
  alone,
] = process.argv
const leastProven = Number(leastProvenAsked)
const seeds = Number(seedsAsked)
const truths = trueCapacities()
const { signal } = new AbortController()

/** Of all runs: how long they took, and at which share of the truth they ended. */
const all = { seconds: [] as number[], reached: [] as number[] }
async function measureRow(virtualCase: VirtualCase, share: number): Promise<string> {
  let [confirmed, lower, held, missed] = [0, 0, 0, 0]
  const seconds: number[] = []
  const reached: number[] = []
  const rateRps = share * truths[virtualCase.name]!
  for (let seed = 1; seed <= seeds; seed++) {
    const server = virtualCase.server(9000 + seed)
    // As after a trial: warm.
    server.play({ kind: 'closed', connections: 8, durationS: 5 })
    const target = { kind: 'virtual', server } as const
    const found = await confirmCapacity({
      target,
      slo: virtualCase.slo,
      rateRps,
      ...(alone === undefined && { minRps: rateRps }),
      minProvenRps: leastProven * rateRps,
      seed: 10_000 * seed,
      signal,
    })
    if (found.proven && found.met) confirmed++
    else if (found.proven) lower++
    else if (found.capacityRps > 0) held++
    else missed++
    reached.push(found.capacityRps / truths[virtualCase.name]!)
    seconds.push(found.seconds)
  }
  all.seconds.push(...seconds)
  all.reached.push(...reached)
  seconds.sort((a, b) => a - b)
  reached.sort((a, b) => a - b)
  const formatPercent = (count: number) => `${((100 * count) / seeds).toFixed(0)} %`
  const formatQuantile = (p: number) => seconds[Math.ceil(p * seeds) - 1]!.toFixed(0)
  return `| ${virtualCase.name} | ${share} | ${formatPercent(confirmed)} | ${formatPercent(lower)} | ${formatPercent(held)} | ${formatPercent(missed)} | ${formatQuantile(0.5)} | ${formatQuantile(0.9)} | ${reached[Math.ceil(0.5 * seeds) - 1]!.toFixed(3)} |`
}

console.log(
  '| server | share of the truth | confirmed | confirmed lower | held | missed | seconds, median | p90 | rate, share of the truth |\n|---|---|---|---|---|---|---|---|---|',
)
for (const virtualCase of [
  ...simpleCases,
  ...virtualCases,
  ...slowCases,
  ...drawnCases,
  ...smallModelCases,
  ...slowTimesCases,
].filter(
  ({ name }) =>
    new RegExp(servers).test(name) && !name.includes('slower') && !name.includes('from 5x'),
))
  for (const share of asked.split(',').map(Number))
    console.log(await measureRow(virtualCase, share))
const beyond = all.reached.filter((share) => share > 1.03).length
console.log(
  `mean: ${mean(all.seconds).toFixed(1)} s, ${mean(all.reached).toFixed(3)} of the truth; ${beyond} of ${all.reached.length} end more than 3 % beyond it`,
)
