/**
 * `npm run gate`: what a change must not make worse, compared with docs/research/baseline.json.
 * docs/research/gate.md says what it measures and how it judges.
 */
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { runParallel } from '../../../search/bench/parallel.ts'
import { formatDuration, formatTable } from '../../cli/render/columns.ts'
import { readBaseline, refuseToReplace, roundCases, writeBaseline } from './baseline.ts'
import { virtualParts } from './parts.ts'
import { realJob } from './real-job.ts'
import type { Cases, GateFigures, Piece, Row } from './types.ts'
import { checkBaseline, compareWith, countChanged, exitCodeOf, summaryOf } from './verdict.ts'
import type { Done } from './worker.ts'

const names = [...virtualParts, realJob].map(({ name }) => name)
const { values: options } = parseArgs({
  options: {
    only: { type: 'string' },
    'skip-real': { type: 'boolean', default: false },
    'write-baseline': { type: 'boolean', default: false },
    force: { type: 'boolean', default: false },
    baseline: {
      type: 'string',
      default: fileURLToPath(new URL('../../../docs/research/baseline.json', import.meta.url)),
    },
    workers: { type: 'string', default: '2' },
    help: { type: 'boolean', default: false },
  },
})
if (options.help) {
  console.log(`Compares this version with docs/research/baseline.json: docs/research/gate.md.
  --only A,B         parts to run: ${names.join(', ')}   (all)
  --skip-real        leaves out real-job, which needs a quiet machine and \`npm run build\`
  --write-baseline   writes the figures of these parts to the baseline; refuses where it has them
  --force            replaces figures that the baseline has
  --baseline FILE    another file of figures   (docs/research/baseline.json)
  --workers N        processes   (2)
Exit code: 0 nothing is worse than allowed; 1 something is, or there is no comparison.`)
  process.exit(0)
}
const wanted = options.only?.split(',') ?? names
for (const name of wanted)
  if (!names.includes(name))
    throw new RangeError(`--only: no part is called '${name}'; known are ${names.join(', ')}`)

const isRealWanted = wanted.includes(realJob.name) && !options['skip-real']
const file = options.baseline
const toRun = wanted.filter((name) => name !== realJob.name || isRealWanted)
if (options['write-baseline']) refuseToReplace(file, toRun, options.force)
else checkBaseline(readBaseline(file), toRun)

/** Before the virtual parts, which keep the machine busy. Undefined: skipped. */
const real = isRealWanted ? await realJob.run((line) => console.error(line)) : undefined
const figures: GateFigures = {
  ...(await runVirtual()),
  ...(real && { [realJob.name]: roundCases(real) }),
}
if (options['write-baseline']) {
  writeBaseline(file, figures, options.force)
  for (const [part, cases] of Object.entries(figures))
    console.log(`${part}: ${Object.keys(cases).length} cases written to ${file}`)
} else compare(readBaseline(file))

async function runVirtual(): Promise<GateFigures> {
  const parts = virtualParts.filter(({ name }) => wanted.includes(name))
  const found = new Map<string, Cases>(parts.map(({ name }) => [name, {}]))
  const jobs: Piece[] = [...parts]
    .sort((a, b) => b.pieceSeconds - a.pieceSeconds)
    .flatMap(({ name, pieces }) =>
      Array.from({ length: pieces }, (_, index) => ({ part: name, index })),
    )
  const secondsOf = ({ part }: Piece) => parts.find(({ name }) => name === part)!.pieceSeconds
  const total = jobs.reduce((sum, job) => sum + secondsOf(job), 0)
  const cpuSeconds = new Map<string, number>()
  const startMs = performance.now()
  let [ended, weight] = [0, 0]
  await runParallel<Piece, Done>(
    new URL('./worker.ts', import.meta.url),
    [],
    jobs,
    Number(options.workers),
    (job, done) => {
      found.set(job.part, { ...found.get(job.part), ...done.cases })
      cpuSeconds.set(job.part, (cpuSeconds.get(job.part) ?? 0) + done.cpuSeconds)
      weight += secondsOf(job)
      const elapsedS = (performance.now() - startMs) / 1000
      console.error(
        `${++ended} of ${jobs.length}: ${job.part} ${job.index + 1}, ${formatDuration(elapsedS)}, about ${formatDuration((elapsedS * (total - weight)) / weight)} left`,
      )
    },
  )
  for (const [part, seconds] of cpuSeconds)
    console.error(`${part}: ${formatDuration(seconds)} of CPU`)
  return Object.fromEntries([...found].map(([part, cases]) => [part, roundCases(cases)]))
}

function compare(baseline: GateFigures): void {
  const skipped: Row[] =
    isRealWanted && real === undefined
      ? [
          {
            measure: 'main job, real',
            baseline: '-',
            now: '-',
            allowed: '-',
            verdict: 'skipped: machine busy',
            cases: 0,
          },
        ]
      : []
  const rows = [...compareWith(baseline, figures, [...virtualParts, realJob]), ...skipped]
  const lines = rows.map(({ measure, baseline: was, now, allowed, verdict, cases }) => [
    measure,
    String(cases),
    was,
    now,
    allowed,
    verdict,
  ])
  console.log(
    formatTable([['measure', 'cases', 'baseline', 'now', 'allowed', 'verdict'], ...lines]).join(
      '\n',
    ),
  )
  for (const [part, cases] of Object.entries(figures))
    console.log(
      `${part}: ${countChanged(baseline[part]!, cases)} of ${Object.keys(cases).length} cases read otherwise than in the baseline`,
    )
  console.log(summaryOf(rows))
  process.exitCode = exitCodeOf(rows)
}
