/**
 * The command line, as built, in a process that has it loaded: what a start costs, about a second
 * of a core, is paid once for many commands.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { CliBox, CliResult } from './run-cli.ts'

const host = fileURLToPath(new URL('command-host.mjs', import.meta.url))

/**
 * For commands that read and print, one after the other, whoever asks; of how a process ends, is
 * interrupted or leaves another behind it tells nothing: `CliBox.run` does.
 */
export class WarmCli {
  #child: ChildProcess | undefined
  #last: Promise<unknown> = Promise.resolve()

  /** Rejects when the command ends its process. */
  run(
    box: CliBox,
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ): Promise<CliResult> {
    const turn = this.#last.then(() => this.#run(box, args, env))
    this.#last = turn.catch(() => {})
    return turn
  }

  async #run(
    { folder }: CliBox,
    args: readonly string[],
    env: Readonly<Record<string, string>>,
  ): Promise<CliResult> {
    const child = this.#child ?? (await this.#started())
    const over = new AbortController()
    child.send({ args, cwd: folder, env: { CI: '', NO_COLOR: '1', TUNE_TEST_BOX: folder, ...env } })
    try {
      return await Promise.race([
        once(child, 'message', over).then(([result]) => result as CliResult),
        once(child, 'exit', over).then(([code]): never => {
          throw new Error(`tune ${args.join(' ')} ended its process (${code})`)
        }),
      ])
    } finally {
      over.abort()
    }
  }

  end(): void {
    this.#child?.disconnect()
    this.#child = undefined
  }

  async #started(): Promise<ChildProcess> {
    this.#child = fork(host, { execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    await once(this.#child, 'message')
    return this.#child
  }
}
