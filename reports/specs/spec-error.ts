/** A spec cannot be made from what is known. */
export class SpecError extends Error {
  constructor(
    message: string,
    readonly hint: string,
    /** The command line or a file that it names has to change: what `tune` ends with. */
    readonly exitCode: number = 2,
  ) {
    super(message)
    this.name = 'SpecError'
  }
}
