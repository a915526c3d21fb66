/**
 * How often a confirmation proves a rate beyond the capacity, in virtual time: `npm run
 * bench:proof-error -- [seeds] [servers] [shares]`. The sequential test permits 5 % for independent
 * requests and any Poisson schedules. A confirmation plays schedules of typical difficulty, so each
 * server is confirmed twice: with these, and with any Poisson schedules. 40 seeds take about three
 * minutes.
 */
import { confirmCapacity } from '../capacity/confirmation/confirm.ts'
import type { VirtualServer } from '../model/virtual-server.ts'
import { simpleCases } from '../testing/simple-servers.ts'
import { type VirtualCase, virtualCases } from '../testing/virtual-servers.ts'
import { trueCapacities } from './truth.bench.ts'

const [
  ,
  ,
  seedCount = '40',
  servers = '^(FIFO 8 ms|two workers, 90 .* within 1 s|bimodal 8/58 ms|processor sharing)$',
  shareList = '1,1.03,1.05',
] = process.argv
const seeds = Number(seedCount)
const shares = shareList.split(',').map(Number)
const truths = trueCapacities()
const { signal } = new AbortController()

/** Replaces each chosen schedule by another Poisson schedule at random. */
const withAnySchedules = (server: VirtualServer): VirtualServer => ({
  play: (load) =>
    server.play(
      load.kind === 'open' ? { ...load, seed: Math.imul(load.seed, 2_654_435_761) >>> 0 } : load,
    ),
})

async function countProofs(
  { name, slo, server }: VirtualCase,
  share: number,
  schedules: 'typical' | 'any',
): Promise<number> {
  const rateRps = share * truths[name]!
  let proofs = 0
  for (let seed = 1; seed <= seeds; seed++) {
    const started = server(9000 + seed)
    // As after a trial: warm.
    started.play({ kind: 'closed', connections: 8, durationS: 5 })
    const { proven, met } = await confirmCapacity({
      target: {
        kind: 'virtual',
        server: schedules === 'any' ? withAnySchedules(started) : started,
      },
      slo,
      rateRps,
      minRps: rateRps,
      seed: 10_000 * seed,
      signal,
    })
    if (proven && met) proofs++
  }
  return proofs
}

const percent = (proofs: number, of: number) => `${((100 * proofs) / of).toFixed(1)} %`
const all = shares.map(() => ({ typical: 0, any: 0, of: 0 }))
console.log(
  `| server | ${shares.map((share) => `at ${share} of the capacity: typical, any schedules`).join(' | ')} |\n|---|${shares.map(() => '---|').join('')}`,
)
for (const one of [...simpleCases, ...virtualCases].filter(({ name }) =>
  new RegExp(servers).test(name),
)) {
  const cells: string[] = []
  for (const [i, share] of shares.entries()) {
    const typical = await countProofs(one, share, 'typical')
    const any = await countProofs(one, share, 'any')
    const total = all[i]!
    all[i] = { typical: total.typical + typical, any: total.any + any, of: total.of + seeds }
    cells.push(`${percent(typical, seeds)}, ${percent(any, seeds)}`)
  }
  console.log(`| ${one.name} | ${cells.join(' | ')} |`)
}
console.log(
  `| all | ${all.map(({ typical, any, of }) => `${percent(typical, of)}, ${percent(any, of)}`).join(' | ')} |`,
)
