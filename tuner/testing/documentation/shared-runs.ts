/** What the pages of the documentation share: a process that has `tune` loaded, and equal searches. */
import { cpSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { CliBox, type CliResult } from '../run-cli.ts'
import { WarmCli } from '../warm-cli.ts'

/**
 * One short trial, for searches of which no output is shown, and for real loads: other tests share
 * the cores. No time is left to repeat a trial that other work disturbed.
 */
export const shortLimits: Readonly<Record<string, string>> = {
  TUNE_MAX_TRIALS: '1',
  TUNE_TRIAL_TIME: '1s',
  TUNE_NO_CONFIRM: '1',
  TUNE_TIME_LIMIT: '3s',
}

/** A search whose end is known: what readers read on pages that ran none in full. */
const knownSearch =
  '--model bert --slo 50ms --backend simulated --gpus T4 --max-trials 4 --seed 1'.split(' ')

/** What a search leaves in its folder. */
const leftBySearch = ['.tune', 'tune-results']

interface FinishedSearch {
  readonly result: CliResult
  readonly left: CliBox
}

export class SharedRuns {
  readonly tune = new WarmCli()
  readonly #searches = new Map<string, FinishedSearch>()
  #known: FinishedSearch | undefined

  /** Runs a search in virtual time; one that names no file of its page runs once for all pages. */
  async search(
    words: readonly string[],
    env: Readonly<Record<string, string>>,
    box: CliBox,
  ): Promise<CliResult> {
    // A store that is there gets the experiment itself, for the commands that read it.
    const isOfPage =
      words[0] !== '--model' ||
      ['.tune', ...words].some((name) => existsSync(join(box.folder, name)))
    if (isOfPage) return this.tune.run(box, words, env)
    const key = JSON.stringify([words, env])
    let finished = this.#searches.get(key)
    if (finished === undefined) {
      const left = new CliBox()
      finished = { result: await this.tune.run(left, words, env), left }
      this.#searches.set(key, finished)
    }
    copyLeft(finished.left, box)
    return finished.result
  }

  /** Puts what the known search left in the place of whatever a page's own left. */
  async leaveKnown(box: CliBox): Promise<void> {
    const { left } = await this.#runKnown()
    for (const name of leftBySearch)
      rmSync(join(box.folder, name), { recursive: true, force: true })
    copyLeft(left, box)
  }

  /** Everything that the known search prints, in the words of a run that measures. */
  async knownOutput(): Promise<string> {
    const { result } = await this.#runKnown()
    return `${result.stderr}\n${result.stdout}`.replaceAll('Simulated second', 'Second')
  }

  async #runKnown(): Promise<FinishedSearch> {
    if (this.#known === undefined) {
      const left = new CliBox()
      this.#known = { result: await this.tune.run(left, knownSearch), left }
    }
    return this.#known
  }

  end(): void {
    this.tune.end()
    for (const { left } of this.#searches.values()) left.dispose()
    this.#known?.left.dispose()
  }
}

function copyLeft(from: CliBox, to: CliBox): void {
  for (const name of leftBySearch.filter((n) => existsSync(join(from.folder, n))))
    cpSync(join(from.folder, name), join(to.folder, name), { recursive: true })
}
