/** Problems of an experiment file, its flags, or an object that a program passes. */

export interface ConfigProblem {
  /** 'experiment.yaml:7:3' or '--slo'. */
  readonly where: string
  readonly what: string
  readonly hint: string
}

/** Everything wrong with an experiment, at once. The command line exits with 2. */
export class ConfigError extends Error {
  constructor(readonly problems: readonly ConfigProblem[]) {
    super(
      problems.map((p) => `${p.where}: ${p.what}${p.hint ? `\n  hint: ${p.hint}` : ''}`).join('\n'),
    )
    this.name = 'ConfigError'
  }
}
