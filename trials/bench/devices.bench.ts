/**
 * `npm run bench:devices [-- --tables DIR | --llm]`: how far the device model is from published
 * measurements; --llm: servers of language models alone. In-sample, for rows left out (5 folds),
 * for GPUs and models left out whole; with --tables, the committed model on tables it has not seen.
 */
import { parseArgs } from 'node:util'
import {
  computeErrors,
  computeSlowdownErrors,
  crossValidateDatasheets,
  crossValidateFolds,
  crossValidateFrameworks,
  crossValidateGroups,
  crossValidateKinds,
  crossValidateShares,
} from '../devices/calibration/cross-validation.ts'
import {
  fitCoefficients,
  fitMemory,
  predictMemoryMiB,
} from '../devices/calibration/fit-coefficients.ts'
import { isCompiled } from '../devices/calibration/fit-physics.ts'
import {
  type LatencyRow,
  readHeldOutLatencies,
  readHeldOutTables,
  readPublishedTables,
  readTables,
  type Tables,
} from '../devices/calibration/published-tables.ts'
import { type Coefficients, calibratedCoefficients } from '../devices/coefficients.ts'
import {
  type Foretold,
  foretoldFrameworks,
  foretoldLlmServers,
  foretoldProcesses,
  foretoldShortages,
} from '../devices/testing/anchored-tables.ts'
import { coverageOf, statedErrors } from '../devices/testing/stated-errors.ts'
import { closedFormLines } from '../launchers/simulated/testing/closed-form-lines.ts'
import { languageServerLines } from '../launchers/simulated/testing/language-server-lines.ts'

const { values: options } = parseArgs({
  options: { tables: { type: 'string' }, llm: { type: 'boolean', default: false } },
})

const percent = (value: number) => `${(100 * value).toFixed(1)} %`.padStart(8)
function report(what: string, errors: readonly number[], target = ''): void {
  if (errors.length === 0) return
  const size = errors.map(Math.abs).sort((a, b) => a - b)
  const signed = [...errors].sort((a, b) => a - b)
  const at = (q: number) => size[Math.min(size.length - 1, Math.floor(q * size.length))]!
  console.log(
    `${what.padEnd(44)} median ${percent(at(0.5))}  p90 ${percent(at(0.9))}  worst ${percent(at(1))}  bias ${percent(signed[signed.length >> 1]!)}  n ${size.length}  ${target}`,
  )
}
function each<T>(
  rows: readonly T[],
  group: (row: T) => string,
  errors: (rows: readonly T[]) => readonly number[],
): void {
  for (const name of new Set(rows.map(group)))
    report(`  ${name}`, errors(rows.filter((row) => group(row) === name)))
}
function coverage(what: string, rows: readonly LatencyRow[], coefficients: Coefficients): void {
  if (rows.length > 0) console.log(coverageOf(what, rows, coefficients))
}
/** Rows that were no anchors, by the device model alone and by the anchored server. */
function anchoredReport(what: string, rows: readonly Foretold[]): void {
  const within = rows.filter(
    (r) => Math.abs(r.anchoredMs / r.measuredMs - 1) <= r.relativeError,
  ).length
  report(
    `${what}, device alone`,
    rows.map((r) => r.unanchoredMs / r.measuredMs - 1),
  )
  report(
    `${what}, anchored`,
    rows.map((r) => r.anchoredMs / r.measuredMs - 1),
    `${within} of ${rows.length} within the stated error`,
  )
}
function skipped(tables: Tables): void {
  for (const [reason, rows] of tables.skipped)
    console.log(`skipped ${rows} rows: ${reason.split(';')[0]}`)
}

if (options.llm) {
  for (const line of languageServerLines()) console.log(line)
  for await (const line of closedFormLines()) console.log(line)
} else if (options.tables !== undefined) {
  const tables = readTables(options.tables)
  skipped(tables)
  console.log('Relative errors of the committed model on tables of', options.tables)
  const compiled = tables.latency.filter(isCompiled)
  report('latency, compiled engines', computeErrors(compiled, calibratedCoefficients))
  each(
    compiled,
    (r) => `${r.gpu.name} ${r.architecture.name} ${r.precision}`,
    (rows) => computeErrors(rows, calibratedCoefficients),
  )
  for (const name of new Set(
    tables.latency.map((r) => `${r.runtime} ${r.gpu.name} ${r.architecture.name}`),
  )) {
    const own = tables.latency.filter(
      (r) => `${r.runtime} ${r.gpu.name} ${r.architecture.name}` === name,
    )
    if (isCompiled(own[0]!) || calibratedCoefficients.runtimes[own[0]!.runtime] !== undefined)
      coverage(`  ${name}`, own, calibratedCoefficients)
  }
  const unseen = compiled.filter((r) => calibratedCoefficients.deviations[r.gpu.name] === undefined)
  report(
    'latency, GPUs in no table of ours',
    computeErrors(unseen, calibratedCoefficients),
    'target 12 % / 30 %',
  )
  const frameworks = tables.latency.filter(
    (r) => !isCompiled(r) && calibratedCoefficients.runtimes[r.runtime] !== undefined,
  )
  report('latency, frameworks', computeErrors(frameworks, calibratedCoefficients))
  report(
    'slowdown by an MPS share, physics alone',
    computeSlowdownErrors(tables.share, calibratedCoefficients),
  )
  report(
    'memory',
    tables.memory.map(
      (r) => predictMemoryMiB(r, calibratedCoefficients.memory) / r.gpuMemoryMiB - 1,
    ),
    'target 6 %',
  )
} else {
  const tables = readPublishedTables()
  skipped(tables)
  const rows = tables.latency.filter(isCompiled)
  const fitted = fitCoefficients(tables, calibratedCoefficients.errors)
  console.log('Relative errors of latency, compiled engines')
  report('in-sample', computeErrors(rows, fitted))
  report('calibrated GPU: 5 folds of rows', crossValidateFolds(rows, 5), 'target 4 % / 10 %')
  const leftOut = (what: string, group: (row: (typeof rows)[number]) => string, target: string) => {
    const each = crossValidateGroups(rows, group)
    report(what, each.flat(), target)
    ;[...new Set(rows.map(group))].forEach((name, i) => {
      report(`  ${name}`, each[i]!)
    })
  }
  leftOut('GPU never seen: leave one GPU out', (r) => r.gpu.name, 'target 12 % / 30 %')
  leftOut('leave one model out', (r) => r.architecture.name, '')
  report('a kind of model new to its GPU', crossValidateKinds(rows))
  report('a GPU left out, by memory, bandwidth and peaks', crossValidateDatasheets(rows).flat())
  console.log('Frameworks that run layer by layer (in-sample)')
  const frameworks = tables.latency.filter((r) => !isCompiled(r))
  each(
    frameworks,
    (r) => r.runtime,
    (own) => computeErrors(own, fitted),
  )
  report(
    'on a GPU where it was not measured',
    crossValidateFrameworks(tables.latency, fitted).map(({ error }) => error),
  )
  console.log('Stated errors, each by bars chosen on other rows')
  for (const line of statedErrors(tables)) console.log(line)
  console.log(
    'Servers anchored on a few of their own latencies (the rows of the anchors are not counted)',
  )
  anchoredReport('ResNet-50 by framework', foretoldFrameworks(frameworks, [1, 8, 32, 128]))
  for (const model of ['bert', 'resnet50', 'vgg16', 'mobilenetv2'])
    anchoredReport(`ParvaGPU ${model}, slices and processes`, foretoldProcesses(model))
  for (const program of ['pytorch', 'cuda-graphs'])
    anchoredReport(
      `PyTorch on an H200, ${program}`,
      foretoldFrameworks(
        readHeldOutLatencies('pytorch-h200.csv').filter(({ runtime }) => runtime === program),
        [1, 4, 16, 64],
      ),
    )
  anchoredReport('time between tokens, llama-7b', foretoldLlmServers([1, 4, 16]))
  for (const line of languageServerLines()) console.log(line)
  console.log('MPS share')
  report('models with a share curve: 5 folds', crossValidateShares(tables.share), 'target 3 %')
  report('slowdown by physics alone', computeSlowdownErrors(tables.share, fitted))
  for (const name of ['H200', 'H100']) {
    const shares = readHeldOutTables()
      .share.filter(({ gpu }) => gpu.name === name)
      .map((row) => ({ ...row, sharing: 'mps' as const }))
    report(
      `the same on an ${name}, of whose shares no table is`,
      computeSlowdownErrors(shares, fitted),
    )
    coverage(`BERT-base on shares of an ${name}, latency`, shares, fitted)
  }
  console.log('GPU memory')
  report(
    'in-sample',
    tables.memory.map((r) => predictMemoryMiB(r, fitted.memory) / r.gpuMemoryMiB - 1),
    'target 6 %',
  )
  const models = [...new Set(tables.memory.map((r) => r.architecture.name))]
  report(
    'leave one model out',
    models.flatMap((name) => {
      const memory = fitMemory(tables.memory.filter((r) => r.architecture.name !== name))
      return tables.memory
        .filter((r) => r.architecture.name === name)
        .map((r) => predictMemoryMiB(r, memory) / r.gpuMemoryMiB - 1)
    }),
  )
  for (const model of ['bert', 'resnet50', 'vgg16', 'mobilenetv2']) {
    const { short, found, falseAlarms } = foretoldShortages(model)
    console.log(
      `  ParvaGPU ${model}: ${found} of ${short} cells without memory foreseen, ${falseAlarms} false alarms`,
    )
  }
}
