/** An example as its user runs it, with a stand-in for its server on the PATH. */
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CliBox, type CliResult } from './run-cli.ts'

export interface StandIn {
  /** The server's program, which the stand-in takes the place of. */
  readonly program: string
  /** File below trials/launchers/testing. */
  readonly script: string
  /**
   * Shell command run at each start, its output kept for `starts`; it sees the program's arguments.
   */
  readonly note: string
}

export class ExampleBox extends CliBox {
  private readonly bin = join(this.folder, 'bin')
  private readonly noted = join(this.folder, 'starts')

  /** @param example `import.meta.url` of the example's test, whose folder is copied */
  constructor(example: string, { program, script, note }: StandIn) {
    super()
    cpSync(fileURLToPath(new URL('.', example)), this.folder, { recursive: true })
    mkdirSync(this.bin)
    const standIn = fileURLToPath(
      new URL(`../../trials/launchers/testing/${script}`, import.meta.url),
    )
    const started = join(this.bin, program)
    writeFileSync(
      started,
      `#!/bin/sh\n${note} >> '${this.noted}'\nexec '${process.execPath}' '${standIn}' "$@"\n`,
    )
    chmodSync(started, 0o755)
  }

  /** `tune init` of a command that starts the stand-in, without a trial. */
  init(...words: string[]): Promise<CliResult> {
    return this.run(['init', '--yes', '--force', '--no-smoke', '--slo', 'p75<50ms', ...words], {
      PATH: `${this.bin}:${process.env.PATH}`,
    })
  }

  /** `tune -f experiment.yaml`, briefly, with these flags too. */
  tune(...flags: string[]): Promise<CliResult> {
    const brief = [
      '--pin',
      'cpuCores=1',
      '--sampler',
      'random',
      '--slo',
      'p75<50ms',
      '--trial-time',
      '1s',
      // Of trials that the machine disturbs, so many.
      '--time-limit',
      '10s',
      '--no-confirm',
    ]
    return this.run(['-f', 'experiment.yaml', ...brief, ...flags], {
      PATH: `${this.bin}:${process.env.PATH}`,
    })
  }

  /** Lines of trials.csv that are of complete trials. */
  completeTrials(): string[] {
    const results = join(this.folder, 'tune-results')
    const [experiment] = readdirSync(results)
    const [, ...rows] = readFileSync(join(results, experiment!, 'trials.csv'), 'utf8')
      .trim()
      .split('\n')
    return rows.filter((row) => row.includes('complete'))
  }

  /** What the stand-in's starts noted. */
  starts(): string {
    return readFileSync(this.noted, 'utf8')
  }
}
