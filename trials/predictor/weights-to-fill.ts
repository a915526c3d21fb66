/**
 * Placeholder for the weights of a deployment. The built-in predictor refuses to start with it,
 * with an explanation.
 */
export const weightsToFill = 'REPLACE_WITH_YOUR_MODEL'
