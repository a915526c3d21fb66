/**
 * Servers and gateways of others, each from an empty folder by `tune init` and `tune -f
 * experiment.yaml --max-trials 2 --trial-time 1s`: `npm run bench:foreign -- [part of a name]`,
 * about twenty seconds each, three minutes at most. Says of each whether it was recognised (its
 * title, or its protocol), whether the file calls it as it wants to be called, whether a trial of
 * it was measured (of those that trials start: with its parameters in the space), and whether
 * nothing is left of it. What Debian and npm have is run where it is installed; what is not is
 * named. Exit code 1 where anything is not as it should be.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { parseServerAddress } from '../../profiler/server-address.ts'
import { freePort } from '../../profiler/testing/free-port.ts'
import { findProgram } from '../../trials/machine/programs.ts'
import { formatTable } from '../cli/render/columns.ts'
import { exitCodes } from '../exit-codes.ts'
import build from '../testing/build.ts'
import { CliBox } from '../testing/run-cli.ts'
import { type ForeignRow, foreignRows } from './foreign-rows.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
process.env.PATH = `${process.env.PATH}${delimiter}/usr/sbin`

/** Of each of the two commands; a server that hangs holds no other up. */
const mostS = 90
/** Where Debian's packages for Node stand. */
const nodeFolders = [join(root, 'node_modules'), '/usr/share/nodejs']
process.env.NODE_PATH = nodeFolders[1]

/** What of its needs is not here. */
function missing({ needs }: ForeignRow): string[] {
  return needs.filter((need) => {
    const [kind, name] = need.includes(':')
      ? [need.slice(0, need.indexOf(':')), need.slice(need.indexOf(':') + 1)]
      : ['program', need]
    if (kind === 'program')
      return findProgram(process.env.PATH!.split(delimiter), name!) === undefined
    if (kind === 'node') return !nodeFolders.some((folder) => existsSync(join(folder, name!)))
    const asked =
      kind === 'python'
        ? ['/usr/bin/python3', '-c', `import ${name}`]
        : ['ruby', '-e', `require '${name}'`]
    return spawnSync(asked[0]!, asked.slice(1)).status !== 0
  })
}

interface Outcome {
  readonly row: ForeignRow
  readonly recognised: boolean
  readonly payload: boolean
  readonly tuned: boolean
  readonly nothingLeft: boolean
  readonly seconds: number
  /** What was said, where something was wrong. */
  readonly said: string
}

class ForeignRun {
  readonly box = new CliBox()
  readonly #children: ChildProcess[] = []
  #names: Readonly<Record<string, string>> = {}

  constructor(private readonly row: ForeignRow) {}

  async run(): Promise<Outcome> {
    const { row, box } = this
    const startedMs = performance.now()
    this.#names = {
      '@PORT@': String(await freePort()),
      '@UPSTREAM@': String(await freePort()),
      '@DIR@': box.folder,
    }
    for (const file of row.files) this.#place(file)
    symlinkSync(join(root, 'node_modules'), join(box.folder, 'node_modules'))
    try {
      await this.#startGateway()
      const init = await box.run(
        ['init', '--yes', '--no-smoke', '--slo', 'p75<250ms', ...row.init.map(this.#filled)],
        {},
        mostS,
      )
      const file = join(box.folder, 'experiment.yaml')
      const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
      const [, named] =
        /Recognised ([^:,]+?)(?::|, process| by its answers)/.exec(init.stderr) ?? []
      const written = (parse(text) ?? {}) as { predictor?: { protocol?: string }; space?: object }
      const knobs = Object.keys(written.space ?? {})
      const recognised =
        init.code === exitCodes.ok &&
        (row.gateway !== undefined || named === row.title) &&
        written.predictor?.protocol === row.protocol &&
        knobs.join() === row.knobs.join()
      const variables = Object.fromEntries(
        [...init.stdout.matchAll(/export (\w+)/g)].map(([, name]) => [name!, this.#secret()]),
      )
      const tuned = await this.#tune(init.code === exitCodes.ok, variables)
      const left = await this.#left()
      return {
        row,
        recognised,
        payload: row.payload.test(text),
        tuned: tuned === undefined,
        nothingLeft: left.length === 0,
        seconds: (performance.now() - startedMs) / 1000,
        said: [init.stderr, text, tuned ?? '', ...left].join('\n'),
      }
    } finally {
      for (const child of this.#children)
        if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGTERM')
      await sleep(300)
      box.dispose()
    }
  }

  /** Undefined if a trial of it was measured, else what was said. */
  async #tune(
    written: boolean,
    variables: Readonly<Record<string, string>>,
  ): Promise<string | undefined> {
    if (!written) return 'no file was written'
    const flags = ['--max-trials', '2', '--trial-time', '1s', '--no-confirm', '--pin', 'cpuCores=1']
    const { code, stdout, stderr } = await this.box.run(
      ['-f', 'experiment.yaml', ...flags],
      variables,
      mostS,
    )
    const { trials } = await this.box.stored()
    const complete = trials.filter(({ state }) => state === 'complete').length
    const wanted = this.row.gateway === undefined && this.row.knobs.length > 0 ? 2 : 1
    return complete >= wanted ? undefined : `exit ${code}\n${stderr}\n${stdout}`
  }

  /** Of its commands nothing may run; what the bench itself started is not theirs. */
  async #left(): Promise<string[]> {
    for (let i = 0; i < 20 && this.box.processes().length > 0; i++) await sleep(100)
    return this.box.processes()
  }

  #secret(): string {
    const header = this.row.init.find((word) => word.includes(': '))
    if (header) return header.slice(header.indexOf(': ') + 2)
    return /\/\/([^@]+)@(?!DIR)/.exec(this.row.init.at(-1)!)?.[1] ?? ''
  }

  readonly #filled = (text: string): string =>
    text.replace(/@[A-Z]+@/g, (name) => this.#names[name] ?? name)

  #place(file: string): void {
    const to = join(this.box.folder, file)
    if (file === 'model.onnx')
      copyFileSync(join(root, 'examples/triton/models/dense/1/model.onnx'), to)
    else
      writeFileSync(to, this.#filled(readFileSync(join(root, 'tuner/bench/foreign', file), 'utf8')))
  }

  async #startGateway(): Promise<void> {
    const { upstream, gateway, init } = this.row
    if (!gateway) return
    for (const words of [upstream, gateway]) {
      if (!words) continue
      const [program, ...args] = words.map(this.#filled)
      const child = spawn(program!, args, {
        cwd: this.box.folder,
        stdio: ['ignore', 'ignore', 'pipe'],
        detached: true,
      })
      child.stderr!.on('data', () => {})
      this.#children.push(child)
      // Some gateways ask nobody for a while who did not answer once.
      if (words === upstream)
        await this.#until(() => answers(`http://127.0.0.1:${this.#names['@UPSTREAM@']}`), upstream)
    }
    const url = this.#filled(init.at(-1)!)
    const { path, origin } = parseServerAddress(url)!
    const socket = url.startsWith('unix:') ? url.slice('unix:'.length) : undefined
    await this.#until(async () => (socket ? existsSync(socket) : answers(origin + path)), gateway)
  }

  async #until(isUp: () => Promise<boolean>, words: readonly string[]): Promise<void> {
    for (let i = 0; i < 300; i++) {
      await sleep(100)
      if (await isUp()) return
    }
    throw new Error(`${words.join(' ')} did not start`)
  }
}

const answers = (url: string): Promise<boolean> =>
  fetch(url).then(
    () => true,
    (error: Error) =>
      /certificate|issuer/i.test(String((error.cause as Error | undefined)?.message)),
  )

build()
const [, , only = ''] = process.argv
const rows = foreignRows.filter(({ name }) => name.toLowerCase().includes(only.toLowerCase()))
const outcomes: Outcome[] = []
for (const row of rows) {
  const absent = missing(row)
  if (absent.length > 0) {
    process.stderr.write(`${row.name}: not here: ${absent.join(', ')}\n`)
    continue
  }
  const outcome = await new ForeignRun(row).run().catch((error: Error): Outcome => {
    const nothing = {
      recognised: false,
      payload: false,
      tuned: false,
      nothingLeft: false,
      seconds: Number.NaN,
    }
    return { row, ...nothing, said: error.message }
  })
  outcomes.push(outcome)
  const right = isRight(outcome)
  process.stderr.write(
    `${row.name}: ${right ? 'right' : 'NOT RIGHT'}, ${outcome.seconds.toFixed(0)} s\n`,
  )
  if (!right) process.stderr.write(`${outcome.said.replace(/^/gm, '    ')}\n`)
}

function isRight({ recognised, payload, tuned, nothingLeft }: Outcome): boolean {
  return recognised && payload && tuned && nothingLeft
}

const mark = (right: boolean) => (right ? 'yes' : 'NO')
process.stdout.write(
  `${formatTable([
    ['server or gateway', 'recognised', 'right payload', 'tuned', 'nothing left', 'seconds'],
    ...outcomes.map(({ row, recognised, payload, tuned, nothingLeft, seconds }) => [
      row.name,
      recognised ? (row.title ?? `by its answers (${row.protocol})`) : 'NO',
      mark(payload),
      row.gateway ? (tuned ? 'measured as it is' : 'NO') : mark(tuned),
      mark(nothingLeft),
      seconds.toFixed(0),
    ]),
  ]).join('\n')}\n${outcomes.filter(isRight).length} of ${outcomes.length} right\n`,
)
process.exitCode = outcomes.every(isRight) ? exitCodes.ok : exitCodes.failure
