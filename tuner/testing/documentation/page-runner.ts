/** Runs the commands of a page of the documentation in a folder of its own. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { exitCodes, resolveExitCode } from '../../exit-codes.ts'
import { CliBox, type CliResult } from '../run-cli.ts'
import { type Command, setUpAndTune } from './page.ts'
import { type SharedRuns, shortLimits } from './shared-runs.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/**
 * How a search is run: loading a predictor in real time, briefly; in virtual time, which loads
 * nothing, in full where the page shows what comes of it, and briefly where it does not.
 */
type SearchTime = 'real' | 'virtual in full' | 'virtual in brief'

/**
 * Pages whose searches load the built-in predictor for real, as the README's first command does.
 */
const realPages = ['docs/tutorials/first-run.md']

/** Commands that read the newest experiment. */
const readers = ['show', 'compare', 'ci', 'plan', 'spec', 'report', 'watch', 'annotate', 'verify']

export const isSearch = ({ words }: Command): boolean =>
  /^(--model|-f)$/.test(words[0]!) && !words.includes('--dry-run')

/** Commands that run until Ctrl-C. */
const isEndless = ({ words }: Command): boolean =>
  words[0] === 'dashboard' ||
  (words[0] === 'watch' && !words.includes('--once')) ||
  (words[0] === 'predictor' && !words.includes('--help'))

export interface RunOutcome extends CliResult {
  /** Exit codes with which the command did what the page says. */
  readonly expected: readonly number[]
  /** Whether what it prints depends on the machine: a real run, or what reads one. */
  readonly isOfRealRun: boolean
}

interface Options {
  /** Path of the page below the root. */
  readonly page: string
  /** Width of the terminal that the page shows. */
  readonly columns: number
  /**
   * Environment of commands where the page's servers are started for real. Without it only
   * `realPages` load something, and their readers read the known search.
   */
  readonly servers?: Readonly<Record<string, string>>
}

export class PageRunner {
  readonly box = new CliBox()
  /** Whether the newest experiment is one that the page's readers can go by. */
  #hasResults = false
  /** Whether the page's reader has the results of a real run by now. */
  #isReal = false

  constructor(
    private readonly shared: SharedRuns,
    private readonly options: Options,
  ) {
    cpSync(join(root, 'examples'), join(this.box.folder, 'examples'), { recursive: true })
    cpSync(join(root, 'docs/files'), this.box.folder, { recursive: true })
  }

  write(name: string, text: string): void {
    const file = join(this.box.folder, name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }

  read(name: string): string {
    return readFileSync(join(this.box.folder, name), 'utf8')
  }

  /** @param isShown whether the page shows what this command, or a reader of it, prints */
  async run(command: Command, isShown: boolean): Promise<RunOutcome> {
    const { words, redirect } = command
    if (readers.includes(words[0]!) && !this.#hasResults) {
      await this.shared.leaveKnown(this.box)
      this.#hasResults = true
    }
    const result = isSearch(command)
      ? await this.#search(command, this.#chooseTime(command, isShown))
      : await this.#runOther(command)
    const asksServer = this.options.servers !== undefined && words[0] === 'init'
    const isOfRealRun = (this.#isReal && words[0] !== 'estimate') || asksServer
    if (redirect !== undefined) this.write(redirect, result.stdout)
    return { ...result, isOfRealRun, expected: this.#expectedCodes(command, result) }
  }

  #chooseTime({ line, words }: Command, isShown: boolean): SearchTime {
    const { page, servers } = this.options
    const isReal =
      servers !== undefined || realPages.includes(page) || line.startsWith(setUpAndTune)
    if (isReal && !words.includes('simulated')) return 'real'
    return isShown ? 'virtual in full' : 'virtual in brief'
  }

  async #search({ words }: Command, time: SearchTime): Promise<CliResult> {
    const { servers, columns } = this.options
    this.#isReal = time === 'real'
    this.#hasResults =
      time === 'virtual in full' ||
      (this.#isReal && servers !== undefined) ||
      (words.includes('simulated') && words.includes('--server'))
    if (time === 'real') return this.box.run(words, { ...shortLimits, ...servers })
    const limits = time === 'virtual in full' ? {} : shortLimits
    const env = { ...limits, TUNE_BACKEND: 'simulated', TUNE_TEST_COLUMNS: `${columns}` }
    return this.shared.search(words, env, this.box)
  }

  #runOther(command: Command): Promise<CliResult> {
    const { words } = command
    const { servers, columns } = this.options
    if (isEndless(command)) return this.#runUntilItSpeaks(words)
    if (servers) return this.box.run(words, servers)
    const env = { TUNE_TEST_COLUMNS: `${columns}` }
    return this.shared.tune.run(
      this.box,
      words,
      words[0] === 'resume' ? { ...env, ...shortLimits } : env,
    )
  }

  /** Starts a command that does not end, and interrupts it once it printed something. */
  async #runUntilItSpeaks(words: readonly string[]): Promise<CliResult> {
    const anyPort = words[0] === 'dashboard' && !words.includes('--port') ? ['--port', '0'] : []
    const { child, result } = this.box.start([...words, ...anyPort])
    const speaks = [child.stdout, child.stderr].map(
      (stream) => new Promise((resolve) => stream?.once('data', resolve)),
    )
    await Promise.race([result, Promise.all(speaks)])
    child.kill('SIGINT')
    return result
  }

  /** A search ends by the code of its own conclusion: a real one may find nothing. */
  #expectedCodes(command: Command, { stdout, stderr }: CliResult): readonly number[] {
    const { words, exitCode } = command
    if (exitCode !== undefined) return [exitCode]
    if (isEndless(command)) return [exitCodes.ok, exitCodes.interrupted]
    // The run that a page resumes was not interrupted here.
    if (words[0] === 'resume' && stderr.includes('is finished')) return [exitCodes.usage]
    if (!isSearch(command) && words[0] !== 'resume') return [exitCodes.ok]
    const [file] = /tune-results\/[^\s"/]+\/recommendation\.json/.exec(stdout + stderr) ?? []
    return file === undefined ? [] : [resolveExitCode(JSON.parse(this.read(file)))]
  }
}
