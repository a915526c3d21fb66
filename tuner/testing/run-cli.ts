/** Runs the real command line, as built, in a process of its own, in a folder of its own. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, vi } from 'vitest'
import { openReader } from '../../trials/store/index.ts'
import type { ExperimentRecord, FinishedTrial } from '../../trials/types.ts'
import { onCores } from './on-cores.ts'

/** Kept up to date with the sources by build.ts. */
export const cli = fileURLToPath(new URL('../../dist/tuner/cli.js', import.meta.url))

/**
 * Exit codes of a run that recommends something, where its confirmation is not what a test is
 * about: a machine with other work may refute it.
 */
export const recommends: readonly (number | null)[] = [0, 4]

/** A search in virtual time, a second long, whose end is known: and more words. */
export const simulatedSearch = (...more: readonly string[]): string[] => [
  ...['--model', 'bert', '--slo', '50ms', '--backend', 'simulated', '--gpus', 'T4'],
  ...more,
]

/** Well below a test's own limit. */
const mostRunS = 240

export interface CliResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunningCli {
  readonly child: ChildProcess
  readonly result: Promise<CliResult>
  /** Resolves once stderr contains the text so many times; rejects when the process ends before. */
  said(text: string, times?: number): Promise<void>
}

/** A folder that `dispose` removes, and a command line that runs in it. */
export class CliBox {
  readonly folder = mkdtempSync(join(tmpdir(), 'tune-cli-'))

  /** On the cores of a list like `0,1` alone, where one is given (Linux). */
  start(
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
    cores?: string,
  ): RunningCli {
    const [program, ...rest] = onCores(cores, [process.execPath, cli, ...args])
    const child = spawn(program, rest, {
      cwd: this.folder,
      env: { ...process.env, CI: '', NO_COLOR: '1', TUNE_TEST_BOX: this.folder, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let stdout = ''
    let stderr = ''
    const waiting: {
      text: string
      times: number
      resolve: () => void
      reject: (error: Error) => void
    }[] = []
    child.stdout.on('data', (chunk) => {
      stdout += chunk
    })
    child.stderr.on('data', (chunk) => {
      stderr += chunk
      for (const w of waiting) if (has(w.text, w.times)) w.resolve()
    })
    const result = new Promise<CliResult>((resolve) => {
      child.on('close', (code) => {
        for (const w of waiting)
          w.reject(new Error(`tune ended (${code}) without saying "${w.text}":\n${stderr}`))
        resolve({ code, stdout, stderr })
      })
    })
    const has = (text: string, times: number) => stderr.split(text).length > times
    const said = (text: string, times = 1) =>
      has(text, times)
        ? Promise.resolve()
        : new Promise<void>((resolve, reject) => {
            waiting.push({ text, times, resolve, reject })
          })
    return { child, result, said }
  }

  /**
   * Rejects, with what it said and what still ran, where it does not end in time: a test that
   * merely times out tells nothing.
   */
  async run(
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
    mostS = mostRunS,
  ): Promise<CliResult> {
    const { result } = this.start(args, env)
    let timer: NodeJS.Timeout | undefined
    let late: string | undefined
    const said: CliResult = await Promise.race([
      result,
      new Promise<CliResult>((resolve) => {
        timer = setTimeout(() => {
          const running = this.processes()
          late = `tune ${args.join(' ')} did not end in ${mostS} s; still running:\n${running.join('\n')}`
          for (const line of running) process.kill(Number(line.split(' ')[0]), 'SIGKILL')
          result.then(resolve)
        }, mostS * 1000)
      }),
    ])
    clearTimeout(timer)
    if (late !== undefined) throw new Error(`${said.stderr}\n${said.stdout}\n${late}`)
    return said
  }

  /** The experiment that was stored last, with its trials. */
  async stored(): Promise<{ experiment: ExperimentRecord; trials: readonly FinishedTrial[] }> {
    const reader = await openReader(join(this.folder, '.tune', 'tune.db'))
    try {
      const [newest] = await reader.list()
      return (await reader.load(newest!.id))!
    } finally {
      await reader.close()
    }
  }

  /**
   * Skips a test of whose trials the machine left none undisturbed, as they themselves tell:
   * nothing was measured that could be recommended.
   */
  async skipIfDisturbed(skip: (note: string) => void): Promise<void> {
    const { trials } = await this.stored()
    const outcomes = trials.map((trial) =>
      trial.state === 'complete' ? trial.measurement.outcome : trial.state,
    )
    if (
      outcomes.includes('host-interference') &&
      outcomes.every((outcome) => outcome === 'host-interference' || outcome === 'failed')
    )
      skip('disturbed: the machine spoilt every trial')
  }

  /**
   * Living processes that were started, at whatever remove, by commands of this box: found by the
   * environment they inherit.
   */
  processes(): string[] {
    const mark = `TUNE_TEST_BOX=${this.folder}`
    return execFileSync('ps', ['-eo', 'pid=,stat='], { encoding: 'utf8' })
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(([, stat]) => !stat?.startsWith('Z'))
      .filter(([pid]) => {
        try {
          return readFileSync(`/proc/${pid}/environ`, 'utf8').includes(mark)
        } catch {
          return false // it ended meanwhile
        }
      })
      .map(
        ([pid]) => `${pid} ${readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')}`,
      )
  }

  /** Once nothing that it started lives any more; rejects after a minute. */
  async end(): Promise<void> {
    await vi.waitFor(() => expect(this.processes()).toEqual([]), { timeout: 60_000, interval: 50 })
    this.dispose()
  }

  dispose(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }
}
