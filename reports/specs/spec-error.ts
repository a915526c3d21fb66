/** A spec cannot be made from what is known. */
export class SpecError extends Error {
  constructor(
    message: string,
    readonly hint: string,
  ) {
    super(message)
    this.name = 'SpecError'
  }
}
