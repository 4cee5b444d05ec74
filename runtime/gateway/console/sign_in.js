// Takes the token once; from then on the browser has a cookie that scripts do not see.

import { foreign, h, put } from "./dom.js";
import { post } from "./net.js";

export function sign_in(done) {
  const field = h("input", {
    id: "token", name: "token", type: "password", autocomplete: "current-password", required: true, spellcheck: "false",
    autofocus: true,
  });
  const fault = h("p", { class: "fault", role: "alert" });
  const button = h("button", { type: "submit", class: "primary" }, "Sign in");
  const form = h("form", { class: "panel sign-in" },
    h("h1", {}, "Sign in"),
    h("p", { class: "muted" }, "This daemon asks for the token that it was started with. It is kept nowhere in this browser."),
    h("label", { for: "token" }, "Token"), field, fault, h("div", { class: "actions" }, button));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await post("/v1/sign-in", { token: field.value });
      field.value = "";
      done();
    } catch (error) {
      put(fault, foreign(error.text ?? error.message));
      field.select();
    }
    button.disabled = false;
  });
  return { title: "Sign in", node: form };
}
