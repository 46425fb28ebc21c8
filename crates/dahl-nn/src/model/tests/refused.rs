//! What is refused, with the words that people will read.

use super::*;

/// Asserts the error of a model with `layers` and a head; the first of `layers` is on line 3.
#[track_caller]
fn refused(layers: &str, message: &str) {
    let error = headed(layers).expect_err(layers).to_string();
    assert_eq!(error, message);
}

#[test]
fn shapes() {
    refused(
        "[[layers]]\ntype = \"conv2d\"\nout_channels = 4\nkernel = 9",
        "conv2d \"layers[0]\": kernel 9×9 is larger than the input of 8×8 with padding 0×0: use a \
         smaller kernel, more padding, or less pooling before (m.toml:3)",
    );
    refused(
        "[[layers]]\ntype = \"max_pool2d\"\nname = \"p\"\nkernel = [3, 2]\npadding = [1, 2]",
        "max_pool2d \"p\": padding 1×2 is more than half the kernel 3×2; use at most 1×1 (m.toml:3)",
    );
    refused(
        "[[layers]]\ntype = \"avg_pool2d\"\nkernel = 0",
        "avg_pool2d \"layers[0]\": kernel is 0×0, must be 1 or more (m.toml:3)",
    );
    refused(
        "[[layers]]\ntype = \"conv2d\"\nout_channels = 4\nkernel = 2\nstride = [1, 0]",
        "conv2d \"layers[0]\": stride is 1×0, must be 1 or more (m.toml:3)",
    );
    refused(
        "[[layers]]\ntype = \"conv2d\"\nout_channels = 0\nkernel = 2",
        "conv2d \"layers[0]\": out_channels must be 1 or more (m.toml:3)",
    );
    refused(
        "\n[[layers]]\ntype = \"linear\"\nout_features = 4",
        "linear \"layers[0]\": input is an image of 1×8×8, linear reads a row of numbers: put a \
         flatten before it (m.toml:4)",
    );
    refused(
        "[[layers]]\ntype = \"flatten\"\n[[layers]]\ntype = \"batch_norm2d\"",
        "batch_norm2d \"layers[1]\": input is a row of 64 numbers, needs an image: put it before \
         the flatten (m.toml:5)",
    );
    let conv =
        |keys: &str| format!("[[layers]]\ntype = \"conv2d\"\nout_channels = 4\nkernel = 3\n{keys}");
    refused(
        &conv("dilation = [1, 4]"),
        "conv2d \"layers[0]\": kernel 3×3 with dilation 1×4 is larger than the input of 8×8 with padding \
         0×0: use a smaller kernel or dilation, more padding, or less pooling before (m.toml:3)",
    );
    refused(
        &conv("dilation = 0"),
        "conv2d \"layers[0]\": dilation is 0×0, must be 1 or more (m.toml:3)",
    );
    refused(
        &conv("groups = 0"),
        "conv2d \"layers[0]\": groups must be 1 or more (m.toml:3)",
    );
    refused(
        &conv("groups = 2"),
        "conv2d \"layers[0]\": groups is 2, which does not divide the input's 1 channels: choose a \
         divisor (m.toml:3)",
    );
    refused(
        &format!(
            "{}{}",
            conv(""),
            conv("groups = 4").replace("out_channels = 4", "out_channels = 6")
        ),
        "conv2d \"layers[1]\": groups is 4, which does not divide the output's 6 channels: choose a \
         divisor (m.toml:7)",
    );
    refused(
        &format!(
            "{}[[layers]]\ntype = \"group_norm\"\nnum_groups = 3",
            conv("")
        ),
        "group_norm \"layers[1]\": num_groups is 3, which does not divide the input's 4 channels: \
         choose a divisor (m.toml:7)",
    );
    refused(
        "[[layers]]\ntype = \"group_norm\"\nnum_groups = 0",
        "group_norm \"layers[0]\": num_groups must be 1 or more (m.toml:3)",
    );
    for shape in ["7", "[8, 7]", "[]", "[1, 1, 8, 8]"] {
        let error = headed(&format!(
            "[[layers]]\ntype = \"layer_norm\"\nnormalized_shape = {shape}"
        ));
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("a sample of the input has [1, 8, 8]: give the last of these"),
            "{error}"
        );
    }
    refused(
        "[[layers]]\ntype = \"layer_norm\"\neps = -1.0",
        "layer_norm \"layers[0]\": eps is -1; it must be a finite number, 0 or more (m.toml:3)",
    );
    for p in ["-0.1", "1.5", "nan", "inf"] {
        let error = headed(&format!("[[layers]]\ntype = \"dropout\"\np = {p}")).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("a probability lies between 0 and 1"),
            "{error}"
        );
    }
}

#[test]
fn layers_that_make_images_larger() {
    let up = |keys: &str| {
        format!("[[layers]]\ntype = \"conv_transpose2d\"\nout_channels = 4\nkernel = 2\n{keys}")
    };
    let said = |keys: &str| headed(&up(keys)).unwrap_err().to_string();
    for (keys, says) in [
        (
            "output_padding = 1",
            "output_padding is 1×1; it must be less than the stride 1×1",
        ),
        (
            "padding = 5",
            "padding 5×5 cuts off all of an output of 9: use less padding",
        ),
        ("stride = [0, 1]", "stride is 0×1, must be 1 or more"),
        (
            "groups = 2",
            "groups is 2, which does not divide the input's 1 channels",
        ),
        ("stride = 9223372036854775807", "too large"),
    ] {
        assert!(said(keys).contains(says), "{keys}: {}", said(keys));
    }
    let resized = |keys: &str| {
        let model = headed(&format!("[[layers]]\ntype = \"upsample\"\n{keys}"));
        model.unwrap_err().to_string()
    };
    for (keys, says) in [
        ("", "give either scale_factor or size"),
        (
            "size = 4\nscale_factor = 2",
            "give either scale_factor or size",
        ),
        ("scale_factor = 0", "gives images of 0×0"),
        (
            "size = 9\nalign_corners = true",
            "align_corners goes with mode = \"bilinear\" only",
        ),
        ("size = 9\nmode = \"cubic\"", "mode"),
        ("scale_factor = 4000000000", "too large"),
    ] {
        assert!(resized(keys).contains(says), "{keys}: {}", resized(keys));
    }
    refused(
        "[[layers]]\ntype = \"adaptive_avg_pool2d\"\noutput_size = [0, 2]",
        "adaptive_avg_pool2d \"layers[0]\": output_size is 0×2, must be 1 or more (m.toml:3)",
    );
}

#[test]
fn connections() {
    let a = "[[layers]]\ntype = \"relu\"\nname = \"a\"\n";
    refused(
        &format!("{a}{a}"),
        "relu \"a\": its name is already that of layers[0] (m.toml:6)",
    );
    refused(
        &format!("{a}[[layers]]\ntype = \"add\""),
        "add \"layers[1]\": reads one value, add needs two or more: list them in `from` (m.toml:6)",
    );
    refused(
        &format!("{a}[[layers]]\ntype = \"relu\"\nfrom = [\"a\", \"input\"]"),
        "relu \"layers[1]\": reads 2 values; only add and concat read more than one: give `from` a single \
         name (m.toml:6)",
    );
    refused(
        "[[layers]]\ntype = \"relu\"\nfrom = \"b\"",
        "relu \"layers[0]\": reads \"b\", and no layer has that name: give it with `name`, or use \
         \"input\" (m.toml:3)",
    );
    refused(
        &format!("[[layers]]\ntype = \"relu\"\nfrom = \"a\"\n{a}"),
        "relu \"layers[0]\": reads \"a\", which comes later: move that layer up (m.toml:3)",
    );
    refused(
        "[[layers]]\ntype = \"relu\"\nname = \"a\"\nfrom = \"a\"",
        "relu \"a\": reads itself (\"a\") (m.toml:3)",
    );
    refused(
        "[[layers]]\ntype = \"relu\"\nfrom = []",
        "relu \"layers[0]\": `from` is empty: leave it out to read the layer before (m.toml:3)",
    );
    refused(
        &format!("{a}[[layers]]\ntype = \"relu\"\nfrom = \"input\""),
        "relu \"a\": nothing reads its output: name it in the `from` of a later layer, or remove \
         it (m.toml:3)",
    );
    refused(
        &format!(
            "{a}[[layers]]\ntype = \"max_pool2d\"\nkernel = 2\nname = \"b\"\n[[layers]]\ntype = \"add\"\nfrom = [\"a\", \"b\"]"
        ),
        "add \"layers[2]\": inputs are 1×8×8 and 1×4×4, and must be equal: make the branches meet \
         with the same channels, strides and padding (a conv2d with kernel 1 can change channels and \
         stride) (m.toml:10)",
    );
    for name in ["", "input", "a b", "a/b", "a\\nb"] {
        let error = headed(&format!("[[layers]]\ntype = \"relu\"\nname = \"{name}\"")).unwrap_err();
        assert!(error.to_string().contains("name"), "{error}");
    }
    refused(
        "[[layers]]\ntype = \"batch_norm2d\"\nname = \"1\"\n[[layers]]\ntype = \"batch_norm2d\"",
        "batch_norm2d \"layers[1]\": another layer's weights are called \"1.weight\" too: rename \
         one (m.toml:6)",
    );
}

#[test]
fn keys_and_types() {
    refused(
        "[[layers]]\ntype = \"relu\"\n\nkernel = 3",
        "relu \"layers[0]\": unknown key \"kernel\"; there are: from, name, type (m.toml:6)",
    );
    refused(
        "[[layers]]\ntype = \"conv2d\"\nkernel = 3",
        "conv2d \"layers[0]\": `out_channels` is missing (m.toml:3)",
    );
    refused(
        "[[layers]]\ntype = \"conv2d\"\nname = \"c\"\nout_channels = 2\nkernel = [3, 3, 3]",
        "conv2d \"c\": `kernel` must be a whole number, or [height, width] (m.toml:7)",
    );
    refused(
        "[[layers]]\ntype = \"conv2d\"\nout_channels = 2.5\nkernel = 3",
        "conv2d \"layers[0]\": `out_channels` must be a whole number, 1 or more (m.toml:5)",
    );
    refused(
        "[[layers]]\ntype = \"conv2d\"\nout_channels = 2\nkernel = 3\nbias = 1",
        "conv2d \"layers[0]\": `bias` must be true or false (m.toml:7)",
    );
    refused(
        "[[layers]]\ntype = \"dropout\"\np = \"half\"",
        "dropout \"layers[0]\": `p` must be a number (m.toml:5)",
    );
    refused(
        "[[layers]]\ntype = \"gelu\"\napproximate = \"erf\"",
        "gelu \"layers[0]\": `approximate` must be `none` or `tanh` (m.toml:5)",
    );
    refused(
        "[[layers]]\ntype = \"layer_norm\"\nnormalized_shape = \"all\"",
        "layer_norm \"layers[0]\": `normalized_shape` must be a whole number, or a list of them \
         (m.toml:5)",
    );
    refused(
        "[[layers]]\ntype = \"group_norm\"",
        "group_norm \"layers[0]\": `num_groups` is missing (m.toml:3)",
    );
    refused(
        "[[layers]]\ntype = \"leaky_relu\"\nnegative_slope = inf",
        "leaky_relu \"layers[0]\": negative_slope is inf; it must be a finite number (m.toml:3)",
    );
    refused(
        "[[layers]]\ntype = \"relu\"\nfrom = [1]",
        "relu \"layers[0]\": `from` must be a layer's name or a list of names (m.toml:5)",
    );
    refused(
        "[[layers]]\ntype = \"max_pool2d\"\nkernal = 2",
        "max_pool2d \"layers[0]\": unknown key \"kernal\": did you mean \"kernel\"? (m.toml:5)",
    );
    refused(
        "[[layers]]\ntype = \"rleu\"",
        "layer \"layers[0]\": unknown type \"rleu\": did you mean \"relu\"? (m.toml:4)",
    );
    let types = crate::keys::names(crate::layers::LAYERS).join(", ");
    refused(
        "[[layers]]\ntype = \"attention\"",
        &format!("layer \"layers[0]\": unknown type \"attention\"; there are: {types} (m.toml:4)"),
    );
    refused(
        "[[layers]]\nname = \"x\"",
        &format!("layer \"layers[0]\": `type` is missing; one of {types} (m.toml:3)"),
    );
    refused(
        "[[layers]]\ntype = 3",
        &format!("layer \"layers[0]\": `type` must be one of {types} (m.toml:4)"),
    );
}

#[test]
fn whole_files() {
    let says = |text: &str, message: &str| {
        let error = Model::from_toml(text, "m.toml")
            .expect_err(text)
            .to_string();
        assert!(error.contains(message), "{error}\nnot: {message}");
    };
    let head = "[[layers]]\ntype = \"flatten\"\n";
    says(
        "",
        "model: `name` is missing; add name = \"my-model\" (m.toml)",
    );
    says("name = 3", "`name` must be a text");
    says(
        "name = \"m\"",
        "`input` is missing; add input = [channels, height, width]",
    );
    says(
        "name = \"m\"\ninput = [1, 2]",
        "`input` must be [channels, height, width]",
    );
    says(
        "name = \"m\"\ninput = [1, 2, -3]",
        "three whole numbers (m.toml:2)",
    );
    says("name = \"m\"\ninput = [1, 2, 3]", "`layers` is missing");
    says(
        "name = \"m\"\ninput = [1, 2, 3]\nlayers = []",
        "there are no layers",
    );
    says(
        "name = \"m\"\ninput = [1, 2, 3]\nlayers = 3",
        "write [[layers]] (m.toml:3)",
    );
    says(
        "name = \"m\"\ninput = [1, 2, 3]\nlayers = [3]",
        "must be a table",
    );
    says(
        "name = \"m\"\ninput = [1, 2, 3]\nlayer = []",
        "unknown key \"layer\"",
    );
    says(
        "name = \"m\"\nname = \"n\"",
        "not valid TOML: duplicate key (m.toml:2)",
    );
    says("name = \"m\ninput", "not valid TOML");
    says(
        &format!("name = \"m\"\ninput = [1, 0, 2]\n{head}"),
        "input: 1×0×2 has no elements",
    );
    says(
        "name = \"m\"\ninput = [1, 2, 2]\n[[layers]]\ntype = \"relu\"",
        "must end with a score per class",
    );
    let deep = format!("name = {}", "[".repeat(100_000));
    says(&deep, "not valid TOML");
}

#[test]
fn absurd_sizes() {
    let says = |text: &str, message: &str| {
        let error = Model::from_toml(text, "m.toml")
            .expect_err(text)
            .to_string();
        assert!(error.contains(message), "{error}\nnot: {message}");
    };
    let flat = "[[layers]]\ntype = \"flatten\"\n";
    let big = 1u64 << 31;
    says(
        &format!("name = \"m\"\ninput = [{big}, {big}, {big}]\n{flat}"),
        "too large",
    );
    says(
        &format!("name = \"m\"\ninput = [{}, 1, 1]\n{flat}", u64::MAX),
        "three whole numbers",
    );
    let linear = format!("[[layers]]\ntype = \"linear\"\nout_features = {big}\n");
    says(
        &format!("name = \"m\"\ninput = [1, 2, 2]\n{flat}{linear}"),
        "too large",
    );
    let half = format!(
        "[[layers]]\ntype = \"linear\"\nout_features = {}\n",
        1u64 << 30
    );
    let two = format!("{half}[[layers]]\ntype = \"linear\"\nout_features = 3\n");
    says(
        &format!("name = \"m\"\ninput = [1, 1, 2]\n{flat}{two}"),
        "too many parameters",
    );
    for (key, value) in [
        ("padding", big),
        ("padding", u64::MAX),
        ("stride", u64::MAX),
        ("dilation", u64::MAX),
        ("dilation", i64::MAX as u64),
        ("groups", u64::MAX),
        ("kernel", big),
    ] {
        let kernel = if key == "kernel" { "" } else { "kernel = 3\n" };
        let conv =
            format!("[[layers]]\ntype = \"conv2d\"\nout_channels = 4\n{kernel}{key} = {value}\n");
        let text = format!("name = \"m\"\ninput = [1, 8, 8]\n{conv}{flat}");
        assert!(
            Model::from_toml(&text, "m.toml").is_err(),
            "{key} = {value}"
        );
    }
}

#[test]
fn builders_say_where_in_the_program() {
    let line = line!() + 3;
    let error = Model::builder("m", [1, 8, 8])
        .relu()
        .stride(2)
        .linear(3)
        .build();
    let error = error.unwrap_err().to_string();
    assert_eq!(
        error,
        format!("relu \"layers[0]\": has no `stride` ({}:{line})", file!())
    );
    let line = line!() + 1;
    let error = Model::builder("m", [1, 8, 8]).linear(3).build();
    let error = error.unwrap_err().to_string();
    assert!(
        error.ends_with(&format!("put a flatten before it ({}:{line})", file!())),
        "{error}"
    );
    let early = Model::builder("m", [1, 8, 8])
        .named("x")
        .flatten()
        .build()
        .unwrap_err();
    assert!(
        early.to_string().contains("`named` before any layer"),
        "{early}"
    );
    assert!(Model::builder("m", [1, 8, 8]).build().is_err());
}
