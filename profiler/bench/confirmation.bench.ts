/**
 * How often a confirmation is right, and how long it takes, in virtual time: `npm run bench:confirmation -- [seeds] [servers] [shares]`. At each share
 * of the true capacity (truth.json): how often the SLO there is confirmed (proven), held without proof, and missed, and the seconds under load. A
 * rate beyond the capacity that is confirmed is the error that the rule's 1 to 5 % are about.
 */
import { confirmCapacity } from '../capacity/confirm.ts'
import { simpleCases } from '../testing/simple-servers.ts'
import { type VirtualCase, virtualCases } from '../testing/virtual-servers.ts'
import { trueCapacities } from './truth.bench.ts'

const [
  ,
  ,
  seedsAsked = '40',
  servers = '^(FIFO 8 ms|batches|two workers|FIFO 4 ms, 30|GPU batch 32|CPU batch|CPU, then|batch 16, 60)',
  asked = '0.93,0.97,1,1.03,1.06',
] = process.argv
const seeds = Number(seedsAsked)
const truths = trueCapacities()
const { signal } = new AbortController()

async function row(of: VirtualCase, share: number): Promise<string> {
  let [confirmed, held, missed] = [0, 0, 0]
  const seconds: number[] = []
  const rateRps = share * truths[of.name]!
  for (let seed = 1; seed <= seeds; seed++) {
    const server = of.server(9000 + seed)
    // As after a trial: warm.
    server.play({ kind: 'closed', connections: 8, durationS: 5 })
    const target = { kind: 'virtual', server } as const
    const found = await confirmCapacity({ target, slo: of.slo, rateRps, leastRps: rateRps, seed: 10_000 * seed, signal })
    if (found.proven) confirmed++
    else if (found.held) held++
    else missed++
    seconds.push(found.seconds)
  }
  seconds.sort((a, b) => a - b)
  const percent = (count: number) => `${((100 * count) / seeds).toFixed(0)} %`
  const at = (p: number) => seconds[Math.ceil(p * seeds) - 1]!.toFixed(0)
  return `| ${of.name} | ${share} | ${percent(confirmed)} | ${percent(held)} | ${percent(missed)} | ${at(0.5)} | ${at(0.9)} |`
}

console.log('| server | share of the truth | confirmed | held | missed | seconds, median | p90 |\n|---|---|---|---|---|---|---|')
for (const of of [...simpleCases, ...virtualCases].filter(
  ({ name }) => new RegExp(servers).test(name) && !name.includes('slower') && !name.includes('from 5x'),
))
  for (const share of asked.split(',').map(Number)) console.log(await row(of, share))
